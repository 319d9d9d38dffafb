# Debian packages, and how the other scripts install those that are missing. Sourced, not run.
#
#   need_packages build run ...   installs what is missing of the named groups, naming it first

packages_build="gcc g++ make autoconf automake pkg-config
libcurl4-openssl-dev libmicrohttpd-dev libuv1-dev libtorrent-rasterbar-dev libsqlite3-dev libssl-dev
libjansson-dev libcyaml-dev libyaml-dev libopenblas-dev libncurses-dev zlib1g-dev"
packages_text="bible-kjv"
packages_test="libcmocka-dev clang clang-format libclang-rt-14-dev xz-utils
python3 python3-yaml python3-jsonschema python3-cryptography binutils
gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user valgrind"

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$(basename "$0"): $*"
    exit 1
}

missing_packages() {
    for package in "$@"; do
        case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
        installed) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

need_packages() {
    command -v apt-get >/dev/null 2>&1 || {
        say "This is not a Debian system: install the libraries that configure names yourself."
        return 0
    }
    wanted=
    for group in "$@"; do
        eval "wanted=\"\$wanted \$packages_$group\""
    done
    missing=$(missing_packages $wanted)
    [ -n "$missing" ] || return 0
    say "Installing these Debian packages: $missing"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 ||
            fail "these packages are missing and need root or sudo to install: $missing"
        as_root=sudo
    fi
    $as_root apt-get update -qq >&2 ||
        fail "apt-get update failed; look at its message above, mend it and run this again"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $missing >&2 </dev/null ||
        fail "apt-get could not install: $missing; look at its message above and run this again"
}

# Configures (once) the tree at $source into folder $1 with the remaining configure arguments.
configure_into() {
    folder=$1
    shift
    case $source in
    *[[:space:]\\\"\#\$\&\'\`]*)
        say "Automake cannot build in \"$source\": move this clone to a folder without spaces and quotes in its path."
        return 1
        ;;
    esac
    [ -x "$source/configure" ] && [ "$source/configure" -nt "$source/configure.ac" ] ||
        (cd "$source" && autoreconf -i) >&2 || return 1
    mkdir -p "$folder"
    if [ ! -f "$folder/Makefile" ]; then
        (cd "$folder" && "$source/configure" "$@") >"$folder/configure.out" 2>&1 || {
            tail -n 20 "$folder/configure.out" >&2
            return 1
        }
    fi
}

# Builds target $2, or all programs, in the configured folder $1.
build_in() {
    make -C "$1" -j"$(nproc)" ${2-all} >"$1/make.out" 2>&1 || {
        tail -n 40 "$1/make.out" >&2
        return 1
    }
}
