# Builds in the directory $1, which holds the sources; $2 says whether modules are wanted too, $3
# which directories have them. Status 3: there are no headers.
set -e
tree="/lib/modules/$(uname -r)/build"
parts=$3
cd "$1"
mkdir out
if [ "$2" = modules ]; then
    [ -e "$tree/Makefile" ] || exit 3
    for part in $parts; do
        make -C "$tree" -j"$(nproc)" M="$1/$part" KCFLAGS="-ffile-prefix-map=$1/=kernel/" modules
        cp "$part"/*.ko out/
    done
fi
make -C tc O="$1/out/tc"
rm -f out/tc/*.d
