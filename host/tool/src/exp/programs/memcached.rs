//! memcached: values set and read back by four clients, each value compared.

use super::program::Program;

/// Sets and gets in pieces of a hundred, by Python's clients.
pub const MEMCACHED: Program = Program {
    packages: &["memcached", "python3-minimal", "libpython3.11-stdlib"],
    files: &[("/root/client.py", SOURCE)],
    script: r#"
user memcache 106
memcached -u memcache -l 127.0.0.1 -m 256 -t 4 > /tmp/memcached.log 2>&1 &
wait_until eval 'echo quit | nc 127.0.0.1 11211'
begins
python3.11 client.py > /tmp/client.log 2>&1 || failed "client: $(tail -5 /tmp/client.log)"
worked 160000
same "right 80000 of 80000" "$(cat /tmp/client.log)" values
stat() { printf 'stats\r\nquit\r\n' | nc 127.0.0.1 11211 | tr -d '\r' | grep "^STAT $1 " | cut -d ' ' -f 3; }
same 80000 "$(stat cmd_set)" sets
same 80000 "$(stat get_hits)" hits
"#,
    ..Program::new("memcached", "values")
};

const SOURCE: &str = r#"
import os, socket
CLIENTS, ROUNDS, PIECE = 4, 200, 100

def client(number):
    stream = socket.create_connection(("127.0.0.1", 11211))
    answers = stream.makefile("rb")
    right = 0
    for turn in range(ROUNDS):
        pairs = [(b"%d-%d" % (number, turn * PIECE + i), b"%d" % ((turn * PIECE + i) * 7919) * 20) for i in range(PIECE)]
        stream.sendall(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key, value in pairs))
        stored = sum(answers.readline() == b"STORED\r\n" for _ in pairs)
        stream.sendall(b"get " + b" ".join(key for key, _ in pairs) + b"\r\n")
        expected = b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(value), value) for key, value in pairs) + b"END\r\n"
        right += stored if answers.read(len(expected)) == expected else 0
    return right

pipes = []
for number in range(CLIENTS):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, b"%d" % client(number))
        os._exit(0)
    os.close(writer)
    pipes.append(reader)
print("right", sum(int(os.read(reader, 20) or 0) for reader in pipes), "of", CLIENTS * ROUNDS * PIECE)
"#;
