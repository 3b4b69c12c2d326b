"""What an escape would reach: a process of the same user, outside of the sandbox.

It holds a secret in its environment, in its memory, in an open file and in shared memory, has a
file open for writing, and answers with the secret on every kind of socket. The secret is also typed
into its terminal, which nobody has read yet. It prints one line of JSON that says where, and lives until its input ends.
"""
import ctypes
import json
import os
import pty
import socket
import sys
import threading

folder = sys.argv[1]
secret = os.environ["VICTIM_SECRET"].encode()
held = os.open(folder + "/secret", os.O_RDONLY)
writable = os.open(folder + "/written", os.O_WRONLY | os.O_CREAT, 0o600)
memory = ctypes.create_string_buffer(secret + b"\0")

terminal, screen = pty.openpty()
os.write(terminal, secret + b"\n")

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 4096, 0o600 | 0o1000)
at = libc.shmat(segment, None, 0)
if at and at != ctypes.c_void_p(-1).value:
    ctypes.memmove(at, secret, len(secret))
libc.shmctl(segment, 0, None)  # goes when this process does


def listening(family, kind, address):
    found = socket.socket(family, kind)
    found.bind(address)
    if kind != socket.SOCK_DGRAM:
        found.listen(64)
    return found


def answer(found):
    while True:
        try:
            client, _ = found.accept()
            client.sendall(secret)
            client.close()
        except OSError:
            pass


def answer_datagrams(found):
    while True:
        data, sender = found.recvfrom(1000)
        open(folder + "/datagrams", "ab").write(data)
        if sender:
            try:
                found.sendto(secret, sender)
            except OSError:
                pass


abstract = "\0rewake-victim-%d" % os.getpid()
tcp = listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
tcp6 = None
try:
    tcp6 = listening(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
except OSError:
    pass
udp = listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
streams = [
    listening(socket.AF_UNIX, socket.SOCK_STREAM, folder + "/stream.sock"),
    listening(socket.AF_UNIX, socket.SOCK_SEQPACKET, folder + "/packet.sock"),
    listening(socket.AF_UNIX, socket.SOCK_STREAM, abstract),
    tcp,
] + ([tcp6] if tcp6 else [])
datagrams = [listening(socket.AF_UNIX, socket.SOCK_DGRAM, folder + "/datagram.sock"), udp]
for each in streams:
    threading.Thread(target=answer, args=(each,), daemon=True).start()
for each in datagrams:
    threading.Thread(target=answer_datagrams, args=(each,), daemon=True).start()
print(json.dumps({
    "PID": os.getpid(),
    "FD": held,
    "WFD": writable,
    "SHM": segment,
    "ADDR": ctypes.addressof(memory),
    "TCP": tcp.getsockname()[1],
    "TCP6": tcp6.getsockname()[1] if tcp6 else 0,
    "UDP": udp.getsockname()[1],
    "ABSTRACT": abstract[1:],
    "TERMINAL": os.ttyname(screen),
}), flush=True)
sys.stdin.read()
