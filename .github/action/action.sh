#!/usr/bin/env bash
# The steps of action.yml. Inputs come only as environment variables, and are never interpolated into a script.
#
# usage: action.sh check      who may start this
#        action.sh install    the program, by its checksum
#        action.sh run        the session of an earlier attempt, or a new one
#        action.sh save       a bundle of it, also when the run was stopped
set -euo pipefail
[[ ${KEY:-} =~ ^[A-Za-z0-9_.-]{1,80}$ ]] || {
    echo "::error::rewake: the key has other characters than letters, digits, _, . and -" >&2
    exit 1
}
state=${RUNNER_TEMP:?}/rewake-$KEY
export REWAKE_HOME=$state/home
export PATH=$state/bin:$PATH

failed() {
    echo "::error::rewake: $1" >&2
    exit 1
}

# A run that somebody without write access starts would spend the owner's API budget.
check() {
    case $GITHUB_EVENT_NAME in
        push | pull_request | schedule | workflow_dispatch | merge_group | release) ;;
        *)
            [ "${ALLOW_EVENT:-}" = true ] ||
                failed "the event $GITHUB_EVENT_NAME can be triggered by people without write access; to allow it, set allow-event: true"
            ;;
    esac
    [ "${ALLOW_ACTOR:-}" = true ] && return
    local actor may
    for actor in "$GITHUB_ACTOR" "${GITHUB_TRIGGERING_ACTOR:-$GITHUB_ACTOR}"; do
        [[ $actor =~ ^[A-Za-z0-9_.-]+(\[bot\])?$ ]] || failed "the actor has an unusual name"
        may=$(gh api "repos/$GITHUB_REPOSITORY/collaborators/$actor/permission" --jq .permission) || may=unknown
        case $may in
            admin | maintain | write) ;;
            *) failed "$actor has no write access to $GITHUB_REPOSITORY ($may); to allow it, set allow-actor: true" ;;
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

# Prints the folder of the artifact of the newest attempt before this one: rewake-KEY-ATTEMPT-SESSION.
newest() {
    local folder name attempt found=0 best=
    for folder in "$state"/artifacts/*/; do
        name=$(basename "$folder")
        [[ $name =~ ^rewake-"$KEY"-([1-9][0-9]{0,8})-[0-9a-f-]{36}$ ]] || continue
        attempt=${BASH_REMATCH[1]}
        if ((attempt >= ${GITHUB_RUN_ATTEMPT:-1})); then continue; fi
        if ((attempt == found)); then
            failed "two sessions of attempt $attempt have the key $KEY: give each its own key"
        fi
        if ((attempt > found)); then
            found=$attempt
            best=$folder
        fi
    done
    printf '%s' "$best"
}

# Puts the files of a session over those of the checkout. tar replaces links, and follows none.
restore_files() {
    local fork
    rm -rf "$state/files"
    fork=$(rewake fork "$1" --files "$state/files") || failed "the files of the session cannot be restored"
    (cd "$state/files" && find . -mindepth 1 -maxdepth 1 -print0 | tar --null -T - -cf -) | tar -xf -
    rm -rf "$state/files"
    # It was only for the files.
    rewake purge "$fork" --yes >/dev/null
}

# Hides the runner's command files from the model's commands, and stops workflow commands in their output.
start() {
    local token
    token=$(new_id)
    printf '%s' "$token" >"$state/token"
    echo "::stop-commands::$token"
    exec env -u GITHUB_ENV -u GITHUB_OUTPUT -u GITHUB_PATH -u GITHUB_STATE -u GITHUB_STEP_SUMMARY \
        rewake -p "$@"
}

run() {
    mkdir -p "$state"
    [ ! -e "$state/session" ] || failed "the key $KEY is used twice in this job: give each session its own key"
    (umask 077 && mkdir -p "$REWAKE_HOME" && printf '%s\n' "${CONFIG:-}" >"$REWAKE_HOME/config.toml")
    local args=() line
    while IFS= read -r line; do
        [ -z "$line" ] || args+=("$line")
    done <<<"${ARGS:-}"
    local earlier id list
    earlier=$(newest)
    if [ -n "$earlier" ]; then
        # A bundle that is damaged ends this here: a new session would do everything twice.
        list=$(rewake import "$earlier/session.rewake" --check 2>&1) || {
            echo "$list" >&2
            failed "the session of the previous attempt cannot be read: if it is damaged, delete its artifact to start again"
        }
        id=$(rewake import "$earlier/session.rewake" --folder . | tail -n 1)
        [ -n "$id" ] || failed "the session of the previous attempt was not imported"
        # A bundle without a snapshot has no files to restore.
        if grep -Eq '^[1-9][0-9]* states? and ' <<<"$list"; then restore_files "$id"; fi
        id=$(rewake fork "$id")
        printf '%s' "$id" >"$state/session"
        echo "session=$id" >>"${GITHUB_OUTPUT:?}"
        start -r "$id" ${args[@]+"${args[@]}"}
    fi
    id=$(new_id)
    printf '%s' "$id" >"$state/session"
    echo "session=$id" >>"${GITHUB_OUTPUT:?}"
    start --session-id "$id" ${args[@]+"${args[@]}"} -- "${PROMPT:?}"
}

new_id() {
    if [ -r /proc/sys/kernel/random/uuid ]; then
        cat /proc/sys/kernel/random/uuid
    else
        uuidgen | tr '[:upper:]' '[:lower:]'
    fi
}

save() {
    local id
    [ ! -r "$state/token" ] || echo "::$(cat "$state/token")::"
    id=$(cat "$state/session" 2>/dev/null) || { echo "there is no session to save" >&2 && return; }
    rewake export "$id" --bundle "$state/session.rewake" --force --files last
    echo "artifact=rewake-$KEY-${GITHUB_RUN_ATTEMPT:-1}-$id" >>"${GITHUB_OUTPUT:?}"
}

case ${1:-} in
    check | install | run | save) "$1" ;;
    *) failed "unknown step ${1:-}" ;;
esac
