#!/bin/sh
# Adds names and lines to the addresses of a kernel's trace: usage: platform/x86_64/symbolise.sh KERNEL < serial.log
[ $# -eq 1 ] || { echo "usage: $0 KERNEL < serial.log" >&2; exit 2; }
while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
    *' trace: '*) ;;
    *) continue ;;
    esac
    address=$(printf '%s' "$line" | sed -n 's/.*trace: [0-9]* \(0x[0-9a-f]*\).*/\1/p')
    addr2line -e "$1" -f -C -i -p "$address" | sed 's/^/        /'
done
