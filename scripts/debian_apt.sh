# To be sourced. Makes apt read one suite of Debian, with lists, state and cache apart from the system's.
#
#   prepare_apt FOLDER SUITE deb|deb-src     leaves APT_CONFIG set for the calls of apt that follow

say() { echo "$*" >&2; }

prepare_apt() {
    apt="$1/apt"
    mkdir -p "$apt/sources" "$apt/lists/partial" "$apt/cache/archives/partial"
    # shellcheck disable=SC2016  # apt fills this in
    mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -1)"
    [ -n "$mirror" ] || { say "the apt of this machine knows no mirror of Debian"; exit 1; }
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    if [ -e "$keys" ]; then signed="[signed-by=$keys] "; else signed=; fi
    echo "$3 $signed$mirror $2 main" > "$apt/sources/$2.list"
    cat > "$apt/apt.conf" <<CONF
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$apt/sources";
Dir::State::Lists "$apt/lists";
Dir::State::Status "/dev/null";
Dir::Cache "$apt/cache";
Dir::Cache::Archives "$apt/cache/archives";
Acquire::Languages "none";
Debug::NoLocking "true";
APT::Sandbox::User "$(id --user --name)";
CONF
    export APT_CONFIG="$apt/apt.conf"
    apt-get --quiet=2 update >&2
}
