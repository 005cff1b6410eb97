"""Processes that meet by number or name, as Python's programs do it: prints a line for each thing seen. tests/boot/ipc runs it in a tenant.

usage: meet.py SUBJECT    `semaphores`, `messages`, `segments`, `queues` or `multiprocessing`
       meet.py leave      makes a segment and message queues, and says their keys
       meet.py take SEGMENT QUEUES...

`queues` uses libc, `multiprocessing` Python's own module, and all others Debian's python3-sysv-ipc."""

import ctypes
import errno
import multiprocessing
import multiprocessing.shared_memory
import os
import pathlib
import signal
import struct
import sys
import time

# A thing that takes this long does not come, seconds. Nothing here depends on its length.
BRIEFLY_S = 0.05


class Child:
    """A process that does something and says what came of it."""

    def __init__(self, work, *arguments):
        self.said, say = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(say)
            return
        try:
            answer = work(*arguments)
        except Exception as error:
            answer = type(error).__name__
        os.write(say, str(answer).encode())
        os._exit(0)

    def answer(self):
        """Waits for its end."""
        with open(self.said) as said:
            answer = said.read()
        os.waitpid(self.pid, 0)
        return answer

    def end(self, number=signal.SIGKILL):
        os.kill(self.pid, number)
        return self.answer()


def tried(work, *arguments, **named):
    """Calls it, and gives its answer or the error's name."""
    try:
        return work(*arguments, **named)
    except Exception as error:
        return type(error).__name__


def until(is_so):
    while not is_so():
        time.sleep(0.005)


def until_asleep(pid):
    """Waits until a process waits: what it waits for is the last thing that it does."""
    until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")


def interrupted(work, *arguments):
    """A child that works until a handler has run."""
    def wait():
        signal.signal(signal.SIGUSR1, lambda *_: None)
        return work(*arguments)
    return Child(wait)


# ---- semaphores by number

def hold(key, is_undone):
    """Takes a semaphore and keeps it."""
    held = sysv_ipc.Semaphore(key)
    held.undo = is_undone
    held.acquire()
    signal.pause()


def take_and_pass(key, name, order):
    held = sysv_ipc.Semaphore(key)
    held.undo = True
    held.acquire()
    os.write(order, name)
    held.release()
    return "passed"


def count_up(key, segment, times):
    """Counts in shared memory under a semaphore."""
    lock, memory = sysv_ipc.Semaphore(key), sysv_ipc.SharedMemory(segment)
    lock.undo = True
    for _ in range(times):
        with lock:
            memory.write(struct.pack("q", struct.unpack("q", memory.read(8))[0] + 1))
    memory.detach()
    return times


def semaphores():
    one = sysv_ipc.Semaphore(None, sysv_ipc.IPC_CREX, initial_value=1)
    holder = Child(hold, one.key, True)
    until(lambda: one.value == 0)
    print("held:", tried(one.acquire, BRIEFLY_S), tried(one.acquire, 0))
    order, said = os.pipe()
    waiters = []
    for name in (b"first ", b"second ", b"third "):
        waiters.append(Child(take_and_pass, one.key, name, said))
        until(lambda: one.waiting_for_nonzero == len(waiters))
    holder.end()
    print("the holder is killed:", *[waiter.answer() for waiter in waiters], os.read(order, 100).decode(), one.value)
    holder = Child(hold, one.key, False)
    until(lambda: one.value == 0)
    holder.end()
    print("killed without undo:", one.value, tried(one.acquire, BRIEFLY_S))
    waiter = interrupted(one.acquire)
    until(lambda: one.waiting_for_nonzero == 1)
    print("a signal:", waiter.end(signal.SIGUSR1), one.waiting_for_nonzero)
    one.value = 2
    zero = Child(one.Z)
    until(lambda: one.waiting_for_zero == 1)
    one.acquire()
    print("above zero:", one.waiting_for_zero)
    one.acquire()
    print("zero:", zero.answer(), one.waiting_for_zero, one.last_pid == zero.pid)
    waiter = Child(one.acquire)
    until(lambda: one.waiting_for_nonzero == 1)
    one.remove()
    print("removed:", waiter.answer(), tried(one.acquire), tried(sysv_ipc.Semaphore, one.key))
    lock = sysv_ipc.Semaphore(None, sysv_ipc.IPC_CREX, initial_value=1)
    memory = sysv_ipc.SharedMemory(None, sysv_ipc.IPC_CREX, size=4096)
    memory.write(bytes(8))
    counters = [Child(count_up, lock.key, memory.key, 200) for _ in range(4)]
    print("counted:", *[counter.answer() for counter in counters], struct.unpack("q", memory.read(8))[0], lock.value)
    memory.detach()
    memory.remove()
    lock.remove()


# ---- message queues by number

def send_numbers(key, kind, count):
    queue = sysv_ipc.MessageQueue(key)
    for number in range(count):
        queue.send(b"%d" % number, type=kind)
    return count


def messages():
    queue = sysv_ipc.MessageQueue(None, sysv_ipc.IPC_CREX)
    for kind, text in ((3, b"c"), (1, b"a"), (2, b"b"), (3, b"d"), (1, b"e")):
        queue.send(text, type=kind)
    print("types:", queue.receive(type=3), queue.receive(type=-2), queue.receive(type=-2), queue.receive(), queue.receive(), queue.current_messages)
    print("empty:", tried(queue.receive, block=False), tried(queue.receive, False, 7))
    waiter = Child(lambda: queue.receive(type=5))
    until_asleep(waiter.pid)
    queue.send(b"not for it", type=4)
    queue.send(b"for it", type=5)
    print("waited for:", waiter.answer(), queue.receive())
    waiter = interrupted(queue.receive)
    until_asleep(waiter.pid)
    print("a signal:", waiter.end(signal.SIGUSR1))
    queue.max_size = 100
    queue.send(b"x" * 60)
    print("full:", tried(queue.send, b"y" * 60, block=False), queue.current_messages)
    sender = Child(queue.send, b"y" * 60)
    until_asleep(sender.pid)
    print("room:", len(queue.receive()[0]), sender.answer(), queue.receive()[0][:1])
    queue.max_size = 1000
    senders = [Child(send_numbers, queue.key, kind, 500) for kind in (1, 2, 3)]
    came = {1: [], 2: [], 3: []}
    for _ in range(1500):
        text, kind = queue.receive()
        came[kind].append(int(text))
    print("in order:", *[sender.answer() for sender in senders], all(numbers == list(range(500)) for numbers in came.values()), queue.current_messages)
    waiter = Child(queue.receive)
    until_asleep(waiter.pid)
    queue.remove()
    print("removed:", waiter.answer(), tried(queue.send, b"x"), tried(sysv_ipc.MessageQueue, queue.key))


# ---- shared memory by number

def write_into(key, text, at):
    memory = sysv_ipc.SharedMemory(key)
    memory.write(text, at)
    return memory.number_attached


def stay_attached(key):
    memory = sysv_ipc.SharedMemory(key)
    signal.pause()
    return memory.id


def segments():
    memory = sysv_ipc.SharedMemory(None, sysv_ipc.IPC_CREX, size=100_000)
    print("made:", memory.size, memory.number_attached)
    print("written elsewhere:", Child(write_into, memory.key, b"hello", 70_000).answer(), memory.read(5, 70_000), memory.number_attached)
    stays = Child(stay_attached, memory.key)
    # An attachment that a child inherits counts, too.
    until(lambda: memory.number_attached == 3)
    inherits = Child(lambda: memory.read(5, 70_000))
    print("inherited:", inherits.answer())
    stays.end()
    print("a killed one is not attached:", memory.number_attached)
    stays = Child(stay_attached, memory.key)
    until(lambda: memory.number_attached == 3)
    memory.remove()
    print("removed:", tried(sysv_ipc.SharedMemory, memory.key), memory.read(5, 70_000), memory.number_attached)
    memory.write(b"still", 0)
    print("until all have gone:", memory.read(5))
    memory.detach()
    stays.end()
    print("gone:", tried(sysv_ipc.attach, memory.id), tried(memory.read))


# ---- what is left behind

# Queues, bytes of each of the two messages in them (a queue holds 16,384 bytes), and bytes of a segment.
LEFT_QUEUES, LEFT_MESSAGE, LEFT_SEGMENT = 500, 8_000, 16 << 20


def leave():
    """Makes queues and a segment that stay, full; says their keys."""
    # It writes each byte.
    memory = sysv_ipc.SharedMemory(None, sysv_ipc.IPC_CREX, size=LEFT_SEGMENT)
    queues = [sysv_ipc.MessageQueue(None, sysv_ipc.IPC_CREX, max_message_size=LEFT_MESSAGE) for _ in range(LEFT_QUEUES)]
    for queue in queues:
        queue.send(b"x" * LEFT_MESSAGE)
        queue.send(b"y" * LEFT_MESSAGE)
    print(memory.key, *[queue.key for queue in queues])


def take(memory, *queues):
    """Removes them."""
    memory, queues = sysv_ipc.SharedMemory(int(memory)), [sysv_ipc.MessageQueue(int(key)) for key in queues]
    print("left:", memory.size, memory.read(3, LEFT_SEGMENT - 3), sum(queue.current_messages for queue in queues))
    memory.remove()
    [queue.remove() for queue in queues]


# ---- queues by name

class Attributes(ctypes.Structure):
    """struct mq_attr: flags, messages at most, bytes of each at most, messages in it."""
    _fields_ = [("words", ctypes.c_long * 8)]


class Event(ctypes.Structure):
    """struct sigevent: value, signal, kind."""
    _fields_ = [("value", ctypes.c_long), ("number", ctypes.c_int), ("kind", ctypes.c_int), ("rest", ctypes.c_char * 48)]


class Time(ctypes.Structure):
    """struct timespec, s and ns."""
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


SIGEV_SIGNAL, SI_MESGQ = 0, -3


class Queue:
    """A POSIX message queue."""

    SIZE = 64

    def __init__(self, name, flags, most=0):
        attributes = Attributes((0, most, self.SIZE))
        self.at = called("mq_open", name, flags, ctypes.c_uint(0o600), ctypes.byref(attributes) if flags & os.O_CREAT else None)

    def send(self, text, priority, until_s=None):
        if until_s is None:
            return called("mq_send", self.at, text, ctypes.c_size_t(len(text)), priority)
        return called("mq_timedsend", self.at, text, ctypes.c_size_t(len(text)), priority, ctypes.byref(moment(until_s)))

    def receive(self, until_s=None):
        text, priority = ctypes.create_string_buffer(self.SIZE), ctypes.c_uint()
        more = () if until_s is None else (ctypes.byref(moment(until_s)),)
        length = called("mq_timedreceive" if more else "mq_receive", self.at, text, ctypes.c_size_t(self.SIZE), ctypes.byref(priority), *more)
        return text.raw[:length], priority.value

    def held(self):
        attributes = Attributes()
        called("mq_getattr", self.at, ctypes.byref(attributes))
        return attributes.words[3]

    def notify(self, number):
        return called("mq_notify", self.at, ctypes.byref(Event(0, number, SIGEV_SIGNAL)))

    def close(self):
        called("mq_close", self.at)


def called(name, *arguments):
    """Calls libc; an OSError tells what was wrong."""
    answer = getattr(LIBC, name)(*arguments)
    if answer == -1:
        raise OSError(ctypes.get_errno(), name)
    return answer


def wrong(work, *arguments):
    """The name of the error with which it ends."""
    try:
        return f"no error: {work(*arguments)}"
    except OSError as error:
        return errno.errorcode[error.errno]


def moment(after_s):
    """A time from now."""
    whole, part = divmod(time.time() + after_s, 1)
    return Time(int(whole), int(part * 1e9))


def watch(name, ready):
    """Waits for the signal that tells of a message; answers where it came from, and the message."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    queue = Queue(name, os.O_RDONLY)
    queue.notify(signal.SIGUSR1)
    os.write(ready, b"x")
    told = signal.sigwaitinfo({signal.SIGUSR1})
    return told.si_code == SI_MESGQ, told.si_pid == os.getppid(), queue.receive()


def queues():
    name = b"/meet-%d" % os.getpid()
    queue = Queue(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, most=4)
    print("made once:", wrong(Queue, name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 4))
    for text, priority in ((b"low", 1), (b"high", 9), (b"high, too", 9), (b"middle", 5)):
        queue.send(text, priority)
    impatient = Queue(name, os.O_RDWR | os.O_NONBLOCK)
    print("full:", wrong(impatient.send, b"x", 0), wrong(queue.send, b"x", 0, BRIEFLY_S), queue.held())
    sender = Child(queue.send, b"waited", 7)
    until_asleep(sender.pid)
    print("priorities:", queue.receive(), sender.answer(), *[queue.receive()[0] for _ in range(4)])
    print("empty:", wrong(impatient.receive), wrong(queue.receive, BRIEFLY_S), queue.held())
    print("too long:", wrong(queue.send, b"x" * (Queue.SIZE + 1), 0), wrong(queue.send, b"x", 32768))
    waiter = Child(queue.receive)
    until_asleep(waiter.pid)
    queue.send(b"now", 3)
    print("waited for:", waiter.answer())
    waiter = interrupted(wrong, queue.receive)
    until_asleep(waiter.pid)
    print("a signal:", waiter.end(signal.SIGUSR1))
    ready, says = os.pipe()
    watcher = Child(watch, name, says)
    os.read(ready, 1)
    print("one is told:", wrong(queue.notify, signal.SIGUSR1))
    queue.send(b"news", 2)
    print("told:", watcher.answer(), called("mq_notify", queue.at, None))
    called("mq_unlink", name)
    print("without a name:", wrong(Queue, name, os.O_RDWR), queue.send(b"kept", 1), impatient.receive())
    queue.close()
    impatient.close()


# ---- Python's own module

def add(lock, total, times):
    for _ in range(times):
        with lock:
            total.value += 1


def fill(name, ready, filled):
    ready.acquire()
    memory = multiprocessing.shared_memory.SharedMemory(name)
    memory.buf[:5] = bytes(reversed(memory.buf[:5]))
    memory.close()
    filled.set()


def square(number):
    return number * number


def own_module():
    start = multiprocessing.get_context("fork")
    lock, total = start.Lock(), start.Value("q", 0, lock=False)
    adders = [start.Process(target=add, args=(lock, total, 200)) for _ in range(4)]
    [adder.start() for adder in adders]
    [adder.join() for adder in adders]
    print("counted:", total.value, *[adder.exitcode for adder in adders])
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=10_000)
    memory.buf[:5] = b"hello"
    ready, filled = start.Semaphore(0), start.Event()
    filler = start.Process(target=fill, args=(memory.name, ready, filled))
    filler.start()
    print("not ready:", filled.wait(BRIEFLY_S))
    ready.release()
    print("filled:", filled.wait(), bytes(memory.buf[:5]))
    filler.join()
    memory.close()
    memory.unlink()
    print("gone:", tried(multiprocessing.shared_memory.SharedMemory, memory.name))
    with start.Pool(3) as pool:
        print("squares:", sum(pool.map(square, range(100), chunksize=5)))
    # Processes that inherit nothing: named semaphores, and one more process that looks after them.
    anew = multiprocessing.get_context("spawn")
    lock, total = anew.Lock(), anew.Value("q", 0)
    adders = [anew.Process(target=add, args=(lock, total, 50)) for _ in range(2)]
    [adder.start() for adder in adders]
    [adder.join() for adder in adders]
    print("counted anew:", total.value, *[adder.exitcode for adder in adders])


SUBJECTS = {"semaphores": semaphores, "messages": messages, "segments": segments, "leave": leave, "take": take, "queues": queues, "multiprocessing": own_module}

if __name__ == "__main__":
    subject = sys.argv[1]
    # The other subjects run without the package, too.
    if subject not in ("queues", "multiprocessing"):
        import sysv_ipc
    LIBC = ctypes.CDLL("librt.so.1", use_errno=True)
    # A child has nothing of its parent's words to say again.
    sys.stdout.reconfigure(line_buffering=True)
    SUBJECTS[subject](*sys.argv[2:])
