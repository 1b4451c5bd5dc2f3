# Sourced by ./test and ./demo: finds what the build needs and installs what is missing.
# Needs rustup's Rust; Debian packages are installed by apt where we may, else named.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What the build needs: compilers of C and C++, and what librdkafka is built with.
build_packages=(build-essential pkg-config libssl-dev zlib1g-dev)

# Packages without which nothing works.
need_packages() {
  local missing=()
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local sudo=
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      echo "These Debian packages are missing and may not be installed from here: ${missing[*]}" >&2
      echo "Install them with: apt-get install ${missing[*]}" >&2
      exit 2
    fi
    sudo=sudo
  fi
  echo "Installing Debian packages: ${missing[*]}" >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
    $sudo apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
  }
}

# Packages without which some tests are skipped.
wish_packages() {
  (need_packages "$@") || echo "Tests that need one of these are skipped: $*" >&2
}

# A server that tests start by themselves: package, then its service, which is not to run.
wish_server() {
  dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed' && return 0
  wish_packages "$1"
  systemctl disable --now "$2" >/dev/null 2>&1 || service "$2" stop >/dev/null 2>&1 || true
}

if ! command -v cargo >/dev/null; then
  [ -e "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust with rustup (https://rustup.rs), then run this again" >&2
  exit 2
fi

# Build output is shared between clones where a cache folder can be made; nothing depends on it.
cache=${HEADWATER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headwater}
if [ -z "${CARGO_TARGET_DIR:-}" ] && mkdir -p "$cache/target" 2>/dev/null; then
  export CARGO_TARGET_DIR="$cache/target"
fi
target=${CARGO_TARGET_DIR:-target}
# Every clone is another path: what would be kept for its next build only fills the disk.
export CARGO_INCREMENTAL=0

# The reference material lies beside a developer's checkout; a user has none.
export HEADWATER_SHARED=${HEADWATER_SHARED:-$PWD/../shared}
