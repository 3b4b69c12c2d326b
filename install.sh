#!/bin/sh
# Installs rewake for one user, without root:
#
#   curl -fsSL ADDRESS/latest/download/install.sh | sh
#   curl -fsSL ADDRESS/latest/download/install.sh | sh -s -- --yes
#
# REWAKE_VERSION   a version instead of the newest one
# REWAKE_BIN_DIR   the folder of the program (default: ~/.local/bin)
# REWAKE_SHA256    the checksum that the archive must have, besides that of SHA256SUMS
# REWAKE_RELEASES  another address of the releases; https, or http on this machine
#
# The checksum is compared before anything is placed, and the last step is a rename. All of it is in a
# function that the last line calls, so a partially downloaded script does nothing.
set -eu

# The address of the releases. .ci/package fills it in.
built_in=''
# Maximum sizes, in blocks of 512 bytes: 1 MiB and 200 MiB.
max_list=2048
max_archive=409600

failed() {
    echo "error: $1" >&2
    [ -z "${2:-}" ] || echo "hint: $2" >&2
    exit "${3:-1}"
}

# Downloads an address to a file of at most so many blocks.
fetch() {
    (
        ulimit -f "$3"
        if command -v curl >/dev/null 2>&1; then
            # An https download must not be redirected to http.
            case $1 in
                https:*) curl -fsSL --proto '=https' --proto-redir '=https' --retry 2 -o "$2" "$1" ;;
                *) curl -fsSL --retry 2 -o "$2" "$1" ;;
            esac
        else
            wget -q -O "$2" "$1"
        fi
    ) || failed "cannot download $1" "check the address, the network and the free space, then try again"
}

sum_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1"
    else
        shasum -a 256 "$1"
    fi | cut -d ' ' -f 1
}

# One of these commands is needed.
needs() {
    for command; do
        if command -v "$command" >/dev/null 2>&1; then
            return
        fi
    done
    failed "the installation needs $(echo "$*" | sed 's/ / or /g')" "install it, then try again"
}

# A text as a JSON string.
quoted() {
    printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"
}

target() {
    case $(uname -sm) in
        'Linux x86_64') echo x86_64-unknown-linux-musl ;;
        'Linux aarch64' | 'Linux arm64') echo aarch64-unknown-linux-musl ;;
        'Darwin x86_64') echo x86_64-apple-darwin ;;
        'Darwin arm64') echo aarch64-apple-darwin ;;
        *) failed "there is no binary for $(uname -sm)" "build it from source: cargo install --path . --locked" ;;
    esac
}

# Asks at the terminal, also when this script comes through a pipe.
confirm() {
    if ! (exec </dev/tty) 2>/dev/null; then
        failed "$1, and there is no terminal to confirm it" "pass --yes if you trust it: … | sh -s -- --yes" 2
    fi
    printf '%s. Install from it? [y/N] ' "$1" >/dev/tty
    read -r answer </dev/tty || answer=
    case $answer in
        y | Y | yes) ;;
        *) failed "nothing was installed" '' 2 ;;
    esac
}

main() {
    yes=
    for option; do
        case $option in
            --yes) yes=1 ;;
            *) failed "unknown option $option" "the options are: --yes" 2 ;;
        esac
    done
    base=${REWAKE_RELEASES:-$built_in}
    base=${base%/}
    [ -n "$base" ] || failed "this script has no address of releases" "name one: REWAKE_RELEASES=https://…" 2
    case $base in
        # Neither a user's name before the host, nor what a terminal obeys.
        *[!A-Za-z0-9.:/_~%+-]*) failed "the release address has a character that is not allowed" '' 2 ;;
        https://?*) ;;
        http://localhost/* | http://localhost:* | http://127.0.0.1/* | http://127.0.0.1:*) ;;
        *) failed "the release address $base must be https, or http on this machine" '' 2 ;;
    esac
    # The address may come from a project's .envrc.
    if [ "$base" != "${built_in%/}" ] && [ -z "$yes" ]; then
        confirm "REWAKE_RELEASES names the address $base"
    fi
    needs curl wget
    needs sha256sum shasum
    needs tar
    needs gzip
    case $base in
        https:*)
            if ! command -v curl >/dev/null 2>&1 && wget --help 2>&1 | grep -qi busybox; then
                failed "the wget of this machine does not check certificates" "install curl, then try again"
            fi
            ;;
    esac
    data=${REWAKE_HOME:-${XDG_DATA_HOME:-${HOME:?}/.local/share}/rewake}
    bin=${REWAKE_BIN_DIR:-${HOME:?}/.local/bin}
    case $data$bin in
        *[[:cntrl:]]*) failed "the name of a folder has a control character" '' 2 ;;
    esac
    target=$(target)
    mkdir -p "$bin" || failed "cannot create $bin" "choose another folder: REWAKE_BIN_DIR=…"
    bin=$(CDPATH='' cd -- "$bin" && pwd)
    new=$(mktemp -d "$bin/.rewake-install.XXXXXX") || failed "cannot write to $bin" "choose another folder: REWAKE_BIN_DIR=…"
    trap 'rm -rf "$new"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP

    sums=latest/download/SHA256SUMS
    wanted=${REWAKE_VERSION:-}
    wanted=${wanted#v}
    if [ -n "$wanted" ]; then
        case $wanted in
            *[!0-9A-Za-z.+-]*) failed "REWAKE_VERSION is not a version" '' 2 ;;
        esac
        echo "REWAKE_VERSION names version $wanted"
        sums=download/v$wanted/SHA256SUMS
    fi
    fetch "$base/$sums" "$new/SHA256SUMS" "$max_list"
    name=$(sed -n "s/^[0-9a-f]\{64\} [ *]\(rewake-[0-9][0-9A-Za-z.+-]*-$target\)\.tar\.gz\$/\1/p" "$new/SHA256SUMS" | head -n 1)
    [ -n "$name" ] || failed "$base/$sums names no archive for $target"
    version=${name#rewake-}
    version=${version%"-$target"}
    if [ -n "$wanted" ] && [ "$version" != "$wanted" ]; then
        failed "$base/$sums is for version $version, not $wanted"
    fi
    sum=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\.tar\.gz\$/\1/p" "$new/SHA256SUMS" | head -n 1)
    archive=$base/download/v$version/$name.tar.gz
    [ -z "${REWAKE_SHA256:-}" ] || [ "$REWAKE_SHA256" = "$sum" ] ||
        failed "the checksum of $name.tar.gz in $base/$sums does not match REWAKE_SHA256"
    fetch "$archive" "$new/archive" "$max_archive"
    [ "$(sum_of "$new/archive")" = "$sum" ] ||
        failed "the checksum of $archive does not match SHA256SUMS" "nothing was installed; try again"

    # Only this one entry, and only a file.
    (cd "$new" && tar -xzf archive "$name/rewake") || failed "$archive has no entry $name/rewake"
    if [ -h "$new/$name" ] || [ -h "$new/$name/rewake" ] || [ ! -f "$new/$name/rewake" ]; then
        failed "$name/rewake in $archive is not a file"
    fi
    chmod 755 "$new/$name/rewake"
    says=$("$new/$name/rewake" --version) || failed "the binary of $archive does not start on this machine"
    [ "${says%% (*}" = "rewake $version" ] || failed "the binary of $archive is \"$says\", not version $version"
    [ ! -d "$bin/rewake" ] || failed "$bin/rewake is a folder"
    sync
    mv -f "$new/$name/rewake" "$bin/rewake" || failed "cannot place $bin/rewake"

    # It says later that this script installed the program, and where.
    receipt="{\"channel\":\"script\",\"path\":$(quoted "$bin/rewake"),\"version\":$(quoted "$version")}"
    if ! (umask 077 && mkdir -p "$data" && printf '%s\n' "$receipt" >"$data/install.json.new" &&
        mv -f "$data/install.json.new" "$data/install.json"); then
        echo "warning: cannot write $data/install.json, which says that this script installed the program" >&2
    fi
    echo "installed rewake $version: $bin/rewake"
    case :$PATH: in
        *":$bin:"*) echo "to begin: rewake doctor" ;;
        *) echo "$bin is not on PATH; for this shell: export PATH=\"$bin:\$PATH\"" ;;
    esac
}

main "$@"
