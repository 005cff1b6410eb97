#!/bin/sh
# Boots the platform's test kernel on several machines and checks that it passes, and that it dies as it should of each crash.
# wanted on consoles: "the failure cannot be contained", "has been in one piece of work"
# Speaks as `cargo test` does: a line for each check on each machine.
# usage: tests/boot/platform.sh [quick | build]      environment: KERNEL (default: builds it), BOOT_TIMEOUT_S (default 120, of QEMU's own time)
set -u
cd "$(dirname "$0")/../.." || exit 2
target=${CARGO_TARGET_DIR:-target}
if [ -z "${KERNEL:-}" ]; then
    cargo build --quiet -p gyre-boot-test --target x86_64-unknown-none || exit 2
    KERNEL=$target/x86_64-unknown-none/debug/gyre-boot-test
fi
[ "${1:-}" = build ] && exit
log=$(mktemp) || exit 2
failures=$(mktemp) || exit 2
module=$(mktemp) || exit 2
trap 'rm -f "$log" "$failures" "$module"' EXIT

# Prints a kernel's words, with names in the trace of its panic.
named() {
    "${GYRE:-./gyre}" symbolise --kernel "$KERNEL" "$log" 2>&1
}

# boot EXPECTED_CODE NAME MACHINE CPU CORES MEMORY_MB COMMAND_LINE [more arguments of QEMU]
boot() {
    expected=$1 name=$2 machine=$3 cpu=$4 cores=$5 memory=$6 line=$7
    shift 7
    python3 tests/boot/patience.py "${BOOT_TIMEOUT_S:-120}" qemu-system-x86_64 -M "$machine" -accel tcg,thread=multi,tb-size=64 -cpu "$cpu" -smp "$cores" -m "$memory" \
        -display none -nodefaults -no-reboot -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4 \
        -kernel "$KERNEL" -append "$line" "$@" < /dev/null > "$log" 2>&1
    code=$?
    sed -n "s/^.*: ok \([a-z0-9_]*\).*\$/test boot: $name: \1 ... ok/p; s/^.*: FAILED \([a-z0-9_]*\).*\$/test boot: $name: \1 ... FAILED/p" "$log"
    if [ "$code" -eq "$expected" ] && { [ -z "${wanted:-}" ] || grep -q "$wanted" "$log"; }; then
        echo "test boot: $name ... ok"
    else
        echo "test boot: $name ... FAILED"
        {
            echo "$name: exit code $code, expected $expected${wanted:+ and \"$wanted\"}"
            grep -E 'FAILED|panic|exception|trace' "$log" || tail -n 5 "$log"
        } >> "$failures"
    fi
}

usual=max,-la57,-erms
# QEMU's exit code is twice the kernel's plus one: 1 is success, 203 a kernel that died and said why.
wanted=' 0 failed'
boot 1 "q35, 4 cores" q35 $usual 4 256 "" -device virtio-rng-pci
# The kernel itself serves as a module: its length is no multiple of anything.
head -c 1000001 "$KERNEL" > "$module"
sum=$(od -An -v -tu1 "$module" | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { print sum }')
boot 1 "q35, boot module" q35 $usual 2 128 "module_bytes=1000001 module_sum=$sum" -device virtio-rng-pci -initrd "$module"
# A zone smaller than its machine: some cores, some memory, one of two devices. Memory outside of it keeps the pattern that was there before.
# (The firmware works below 1 MiB and in the last 32.)
backing=$(mktemp) || exit 2
zone='cores=2 memory=2M+64M,0x8000+4K devices=00:05.0,00:07.0 copies=loops'
python3 tests/boot/outside.py fill "$backing" 256 || exit 2
wanted='INFO  0 platform: 2 cores listed, 6[0-9]\{4\} KiB of memory, .* 1 PCI functions'
boot 1 "part of a machine" q35,memory-backend=ram $usual 4 256 "$zone" -object memory-backend-file,id=ram,size=256M,share=on,mem-path="$backing" \
    -device virtio-rng-pci,addr=5 -device virtio-rng-pci,addr=6
if python3 tests/boot/outside.py check "$backing" 3 66 67 224 2>> "$failures"; then
    echo "test boot: memory outside of the zone is not touched ... ok"
else
    echo "test boot: memory outside of the zone is not touched ... FAILED"
fi
# A supervisor and zones of this very kernel in the last 48 MiB: memory between the two keeps its pattern. Copies through vector registers want
# the most of each core.
python3 tests/boot/outside.py fill "$backing" 256 || exit 2
# Exit code 1 says that no check has failed.
wanted='supervisor of 3 more cores, 19[0-9]\{4\} KiB of memory in lots, [1-9]'
boot 1 "supervisor with zones" q35,memory-backend=ram $usual 4 256 'supervisor cores=1 memory=2M+64M devices=none copies=vectors' \
    -object memory-backend-file,id=ram,size=256M,share=on,mem-path="$backing" -device virtio-rng-pci,addr=5
if python3 tests/boot/outside.py check "$backing" 208 254 67 206 2>> "$failures"; then
    echo "test boot: memory between a supervisor and its zones is not touched ... ok"
else
    echo "test boot: memory between a supervisor and its zones is not touched ... FAILED"
fi
rm -f "$backing"
# It says which levels of protection it has, and refuses zones at others: the check of that is on its list on no other machine.
wanted='levels of protection: none, pages; no walls: the processor has no guests (SVM)'
boot 1 "supervisor without SVM" q35 $usual,-svm 2 256 'supervisor cores=1 memory=2M+64M'
case $(cat "$log") in
*': ok walls_are_refused_if_the_machine_has_none'*) echo "test boot: walls are refused without SVM ... ok" ;;
*)
    echo "test boot: walls are refused without SVM ... FAILED"
    echo "supervisor without SVM: no word of walls that are refused" >> "$failures"
    ;;
esac
wanted='supervisor of 1 more cores'
boot 1 "supervisor of two cores, with one more" q35 $usual 3 256 'supervisor cores=2 memory=2M+64M'
wanted='supervisor of 0 more cores, 0 KiB of memory in lots, 0 PCI functions'
boot 1 "supervisor that keeps all" q35 $usual 1 128 'supervisor'
wanted='devices= names 00:07.0, where there is no PCI function'
boot 1 "a device that is not there" q35 $usual 1 128 "devices=00:07.0"
wanted='INFO  0 platform: 1 cores listed, 1[0-9]\{4\} KiB of memory, .* 0 PCI functions'
boot 1 "one core, no device, no page below 640 KiB" q35 $usual 2 128 "cores=1 memory=2M+16M devices=none"
for refused in memory=64M memory=2M+64M,4M+4K memory=16M+64M memory=2M+64M devices=04.0 tsc_khz=0 copies=fast; do
    wanted='the machine cannot start: .*expected'
    boot 7 "refused: $refused" q35 $usual 2 128 "$refused"
done
wanted=' 0 failed'
if [ "${1:-}" != quick ]; then
    for cores in 1 2 8; do
        boot 1 "q35, $cores cores" q35 $usual $cores 256 "" -device virtio-rng-pci
    done
    for memory in 64 128 2048 4096; do
        boot 1 "q35, $memory MB" q35 $usual 2 $memory "" -device virtio-rng-pci
    done
    boot 1 "q35, device behind a bridge" q35 $usual 2 256 "" -device pcie-root-port,id=root1 -device virtio-rng-pci,bus=root1
    boot 1 "pc, qemu64" pc qemu64 2 256 "" -device virtio-rng-pci
    boot 1 "q35, max as it is" q35 max 2 256 "" -device virtio-rng-pci
    boot 1 "q35, qboot" q35 $usual 4 256 "" -device virtio-rng-pci -bios qboot.rom
    boot 1 "microvm" microvm $usual 4 256 ""
    boot 1 "microvm without ACPI" microvm,acpi=off $usual 2 256 ""
    # The image must run wherever it is loaded.
    linked=$KERNEL
    KERNEL=$(mktemp) || exit 2
    python3 tests/boot/move_image.py "$linked" "$KERNEL" 0x4000000 || exit 2
    boot 1 "q35, loaded 64 MB higher" q35 $usual 2 256 "" -device virtio-rng-pci
    rm -f "$KERNEL"
    KERNEL=$linked
    boot 1 "two cores of four wanted" q35 $usual 4 256 "cores=2" -device virtio-rng-pci
fi

# Typed letters arrive as an event and come back upper case, in order.
keys=$(mktemp -u) && mkfifo "$keys" || exit 2
python3 tests/boot/patience.py "${BOOT_TIMEOUT_S:-120}" qemu-system-x86_64 -M q35 -accel tcg,tb-size=64 -cpu $usual -smp 2 -m 128 \
    -display none -nodefaults -no-reboot -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$KERNEL" -append echo=1 < "$keys" > "$log" 2>&1 &
echoes=$!
exec 3> "$keys"
rm -f "$keys"
while kill -0 $echoes 2> /dev/null && ! grep -q 'echo: takes letters' "$log"; do
    sleep 0.1
done
# QEMU may have ended without it: then nobody reads.
(trap '' PIPE; echo 'gyre at your service.' >&3) 2> /dev/null
wait $echoes
exec 3>&-
typed=$(cat "$log")
case $typed in
*'GYRE AT YOUR SERVICE.'*) echo "test boot: console input ... ok" ;;
*)
    echo "test boot: console input ... FAILED"
    echo "console input: $typed" >> "$failures"
    ;;
esac

# crash NAME WANTED FUNCTION_IN_THE_TRACE [EXIT_CODE]
crash() {
    wanted=$2
    boot "${4:-203}" "crash: $1" q35 $usual 2 128 "crash=$1"
    if named | grep -q "^        .*$3 at platform/boot_test/src/[a-z]*\.rs:[0-9]"; then
        echo "test boot: crash: $1: the trace names $3 ... ok"
    else
        echo "test boot: crash: $1: the trace names $3 ... FAILED"
        { echo "crash: $1: nothing names $3:"; named | grep -A 3 'trace:'; } >> "$failures"
    fi
}
crash panic 'as asked at ' crash::run
crash null 'page fault (vector 14, code 0x0) in the kernel, cr2 0x8' crash::run
crash text 'page fault (vector 14, code 0x3)' crash::run
# Of an address that is no code its caller is named.
crash data 'page fault (vector 14, code 0x11)' suite::main
crash user 'page fault (vector 14, code 0x1) in the kernel, cr2 0x400000' touch_user_page
crash stack 'double fault' crash::deepen
crash elsewhere 'core 1 as asked at ' 'crash::die_elsewhere.*'
# A core that hangs with interrupts off says its place; QEMU makes 205 of the kernel's code 102.
crash hang 'core 1 has been in one piece of work for [0-9]* ms' 'crash::spin' 205
crash asked 'core 1 ends its work at ' 'crash::end_elsewhere.*'
crash undefined 'invalid opcode' crash::run

if [ -s "$failures" ]; then
    echo "failures:"
    cat "$failures"
    exit 1
fi
