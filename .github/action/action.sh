#!/usr/bin/env bash
# The steps of action.yml. Inputs come only as environment variables, never as text of a script.
#
# usage: action.sh check      who may start this
#        action.sh install    the program, by its checksum
#        action.sh run        the session of an earlier attempt, or a new one
#        action.sh save       a bundle of it, also when the run was stopped
set -euo pipefail
state=${RUNNER_TEMP:?}/rewake
export REWAKE_HOME=$state/home
export PATH=$state/bin:$PATH

failed() {
    echo "::error::rewake: $1" >&2
    exit 1
}

# What somebody without write access starts could spend the owner's keys.
check() {
    case $GITHUB_EVENT_NAME in
        pull_request_target | workflow_run | issue_comment | issues)
            [ "${ALLOW_EVENT:-}" = true ] ||
                failed "the event $GITHUB_EVENT_NAME is started from outside: allow-event: true permits it"
            ;;
    esac
    [ "${ALLOW_ACTOR:-}" = true ] && return
    local actor may
    for actor in "$GITHUB_ACTOR" "${GITHUB_TRIGGERING_ACTOR:-$GITHUB_ACTOR}"; do
        [[ $actor =~ ^[A-Za-z0-9_.-]+(\[bot\])?$ ]] || failed "the actor has an unusual name"
        may=$(gh api "repos/$GITHUB_REPOSITORY/collaborators/$actor/permission" --jq .permission) || may=unknown
        case $may in
            admin | maintain | write) ;;
            *) failed "$actor has no write access to $GITHUB_REPOSITORY ($may): allow-actor: true permits it" ;;
        esac
    done
}

install() {
    mkdir -p "$state"
    local root
    root=$(cd "$(dirname "$0")/../.." && pwd)
    # The version of this action, unless another one is named.
    local version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)}
    local repository
    repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
    export REWAKE_RELEASES=${REWAKE_RELEASES:-${repository:+${repository%/}/releases}}
    [ -n "$REWAKE_RELEASES" ] || failed "this version of the action has no release address"
    REWAKE_VERSION=$version REWAKE_SHA256=${SHA256:-} REWAKE_BIN_DIR=$state/bin \
        sh "$root/install.sh" --yes
}

# Prints the folder of the newest artifact of this key: rewake-KEY-ATTEMPT-SESSION.
newest() {
    local folder name found=-1 best=
    for folder in "$state"/artifacts/*/; do
        name=$(basename "$folder")
        [[ $name =~ ^rewake-"$KEY"-([0-9]{1,9})-[0-9a-f-]{36}$ ]] || continue
        if ((10#${BASH_REMATCH[1]} > found)); then
            found=$((10#${BASH_REMATCH[1]}))
            best=$folder
        fi
    done
    printf '%s' "$best"
}

check_key() {
    [[ ${KEY:-} =~ ^[A-Za-z0-9_.-]{1,80}$ ]] || failed "the key has other characters than letters, digits, _, . and -"
}

# Puts the files of a session over those of the checkout. tar replaces links, and follows none.
restore_files() {
    local fork
    fork=$(rewake fork "$1" --files "$state/files") || {
        echo "::warning::rewake: the bundle has no files, so the session continues with those of the checkout" >&2
        return 0
    }
    (cd "$state/files" && find . -mindepth 1 -maxdepth 1 -print0 | tar --null -T - -cf -) | tar -xf -
    rm -rf "$state/files"
    # It was only for the files.
    rewake purge "$fork" --yes >/dev/null
}

run() {
    check_key
    mkdir -p "$state"
    (umask 077 && mkdir -p "$REWAKE_HOME" && printf '%s\n' "${CONFIG:-}" >"$REWAKE_HOME/config.toml")
    local args=() line
    while IFS= read -r line; do
        [ -z "$line" ] || args+=("$line")
    done <<<"${ARGS:-}"
    local earlier id
    earlier=$(newest)
    if [ -n "$earlier" ]; then
        # A bundle that is damaged ends this here: a new session would do everything twice.
        id=$(rewake import "$earlier/session.rewake" --folder . | tail -n 1) ||
            failed "the session of the attempt before cannot be read: delete its artifact to start again"
        restore_files "$id"
        id=$(rewake fork "$id")
        printf '%s' "$id" >"$state/session"
        export_name "$id"
        exec rewake -p -r "$id" ${args[@]+"${args[@]}"}
    fi
    id=$(new_id)
    printf '%s' "$id" >"$state/session"
    export_name "$id"
    exec rewake -p --session-id "$id" ${args[@]+"${args[@]}"} -- "${PROMPT:?}"
}

new_id() {
    if [ -r /proc/sys/kernel/random/uuid ]; then
        cat /proc/sys/kernel/random/uuid
    else
        uuidgen | tr '[:upper:]' '[:lower:]'
    fi
}

# The outputs are there before the run, so that they are there after its end by a signal.
export_name() {
    {
        echo "session=$1"
        echo "artifact=rewake-$KEY-${GITHUB_RUN_ATTEMPT:-1}-$1"
    } >>"${GITHUB_OUTPUT:?}"
}

save() {
    local id
    id=$(cat "$state/session" 2>/dev/null) || { echo "there is no session to save" >&2 && return; }
    rewake export "$id" --bundle "$state/session.rewake" --force --files last
}

case ${1:-} in
    check | install | run | save) "$1" ;;
    *) failed "unknown step ${1:-}" ;;
esac
