# What the scripts share. Sourced by bash scripts that have set -euo pipefail and stand in the repository's root.

# Says what comes next.
step() {
    printf '\n==> %s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Rust links with the system's C compiler, and SQLite is compiled by it: it is there when it makes a program.
need_c_compiler() {
    if ! echo 'int main(void) { return 0; }' | cc -x c -include stdio.h -o /dev/null - 2>/dev/null; then
        install_packages "a C compiler" gcc libc6-dev
    fi
}

# Installs the Debian package PACKAGE unless the command COMMAND is there: need COMMAND PACKAGE [COMMAND PACKAGE ...]
need() {
    local missing=() commands=()
    while [ $# -gt 0 ]; do
        if ! command -v "$1" >/dev/null 2>&1; then
            commands+=("$1")
            # Two commands of one package are installed once.
            [[ " ${missing[*]} " == *" $2 "* ]] || missing+=("$2")
        fi
        shift 2
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${commands[*]}" "${missing[@]}"
}

# Installs Debian packages, or says which ones to install: install_packages WHY PACKAGE...
install_packages() {
    local why=$1
    shift
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "missing: $why. Please install it; on Debian the packages are: $*"
    fi
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        if sudo -n true 2>/dev/null; then
            sudo=(sudo)
        else
            fail "missing: $why. Please run: sudo apt-get install --no-install-recommends $*"
        fi
    fi
    step "installing $* (missing: $why)"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# libheif's tools: HEIC images are read by one and made for the tests by another.
need_heif() {
    if ! command -v heif-enc >/dev/null 2>&1 ||
        ! { command -v heif-dec >/dev/null 2>&1 || command -v heif-convert >/dev/null 2>&1; }; then
        install_packages "libheif's tools" libheif-examples
    fi
    # Newer releases keep the codecs in packages of their own, which are only recommended; older ones know no such package.
    local plugin
    for plugin in libheif-plugin-libde265 libheif-plugin-x265; do
        if apt-cache show "$plugin" >/dev/null 2>&1 && ! dpkg -s "$plugin" >/dev/null 2>&1; then
            install_packages "a codec of libheif" "$plugin"
        fi
    done
}

# PostgreSQL and Redis, whose programs the tests and benchmarks start themselves.
need_servers() {
    if ! command -v initdb >/dev/null 2>&1 && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
        keep_packages_from_starting_servers
        install_packages "PostgreSQL" postgresql
    fi
    if ! command -v redis-server >/dev/null 2>&1; then
        install_packages "redis-server" redis-server
    fi
}

# Debian's package makes and starts a cluster of its own, which nothing here needs.
keep_packages_from_starting_servers() {
    [ "$(id -u)" -eq 0 ] && [ ! -e /etc/postgresql-common/createcluster.conf ] || return 0
    mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
}

# The toolchain comes from rustup as a rule, whose directory is not always on the PATH of a fresh shell.
need_cargo() {
    if ! command -v cargo >/dev/null 2>&1 && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    command -v cargo >/dev/null 2>&1 || fail "cargo is missing: install Rust 1.95 or newer from https://rustup.rs"
}

# Where cargo puts what it builds.
target_dir() {
    local dir=${CARGO_TARGET_DIR:-target}
    case $dir in
        /*) printf '%s\n' "$dir" ;;
        *) printf '%s/%s\n' "$PWD" "$dir" ;;
    esac
}
