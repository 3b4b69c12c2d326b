//! The tries: small programs that reach for what a level does not give. A try got through when
//! it prints the secret, or when something outside changed ([`crate::sandbox::scene`] compares).
//!
//! `WS` is the workspace, `OUT` a folder outside, `HOME` the home folder; the rest of the
//! variables is what [`victim.py`](victim.py) prints.

use rewake::core::access::Access;

use crate::sandbox::scene::survivor;

pub struct Try {
    pub name: &'static str,
    /// The highest level at which it must not get through.
    pub up_to: Access,
    pub program: Program,
    pub only: Only,
}

#[derive(Clone, Copy)]
pub enum Program {
    Shell(&'static str),
    Python(&'static str),
}

/// Where it works without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Only {
    Everywhere,
    AsRoot,
    /// On some machines: it depends on how the kernel was built, or on what is installed.
    Somewhere,
    /// As root, on some machines.
    AsRootSomewhere,
}

const PRELUDE: &str = r#"
import ctypes, fcntl, os, signal, socket, struct, sys, time
E = os.environ
OUT, WS, HOME = E["OUT"], E["WS"], E["HOME"]
PID = int(E["PID"])
L = ctypes.CDLL(None, use_errno=True)
L.syscall.restype = ctypes.c_long
def call(number, *args):
    return L.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
def got(it=True):
    if it: print("GOT-IT" + "-7261", flush=True)
def stream(family, address, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind); s.settimeout(5); s.connect(address); print(s.recv(100).decode(), flush=True)
"#;

impl Try {
    /// As a script for `sh`, in a process of its own.
    pub fn script(&self) -> String {
        let script = match self.program {
            Program::Shell(text) => format!("sh -c {} 2>&1", quoted(text)),
            Program::Python(text) => {
                let text = format!("{PRELUDE}{text}");
                format!("/usr/bin/python3 -c {} 2>&1", quoted(&text))
            }
        };
        script.replace("30.7261", &survivor())
    }
}

/// The name of the try that only a kernel with process namespaces holds for certain.
pub const FORKS: &str = "what forks and exits after the command";

pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

macro_rules! tries {
    ($($name:literal $up_to:ident $only:ident $kind:ident $text:expr;)*) => {
        &[$(Try {
            name: $name,
            up_to: Access::$up_to,
            only: Only::$only,
            program: Program::$kind($text),
        }),*]
    };
}

pub const TRIES: &[Try] = tries! {
    // Reading
    "read a file outside" Network Everywhere Shell r#"cat "$OUT/secret""#;
    "read by a link in the workspace" Network Everywhere Shell r#"cat link"#;
    "read below a linked folder" Network Everywhere Shell r#"cat linked/secret"#;
    "read by dots" Network Everywhere Shell r#"cat ../../outside/secret"#;
    "read by a new link" Network Everywhere Shell r#"ln -s "$OUT/secret" "${TMPDIR:-.}/l"; cat "${TMPDIR:-.}/l""#;
    "read by /proc/self/root" Network Everywhere Shell r#"cat /proc/self/root"$OUT/secret""#;
    "read by /proc/self/cwd" Network Everywhere Shell r#"cat /proc/self/cwd/../../outside/secret"#;
    "read by a hard link" Network Everywhere Shell r#"ln "$OUT/secret" hard; cat hard"#;
    "read by moving it in" Network Everywhere Shell r#"mv "$OUT/secret" moved; cat moved"#;
    "read by copying" Network Everywhere Shell r#"cp "$OUT/secret" "${TMPDIR:-.}/c"; cat "${TMPDIR:-.}/c""#;
    "read by tar" Network Everywhere Shell r#"tar cf - -C "$OUT" secret"#;
    "read by git diff" Network Everywhere Shell r#"git diff --no-index /dev/null "$OUT/secret""#;
    "read by the dynamic loader" Network Somewhere Shell r#"/lib64/ld-linux-x86-64.so.2 /bin/cat "$OUT/secret""#;
    "read by input of the shell" Network Everywhere Shell r#"read -r l < "$OUT/secret"; echo "$l""#;
    "read names outside" Network Everywhere Shell r#"ls "$OUT" | grep -q secret && echo GOT-IT-7261"#;
    "read an ssh key" Network Everywhere Shell r#"cat "$HOME/.ssh/id_ed25519""#;
    "read netrc" Network Everywhere Shell r#"cat "$HOME/.netrc""#;
    "read cloud credentials" Network Everywhere Shell r#"cat "$HOME/.aws/credentials""#;
    "read the tokens of gh" Network Everywhere Shell r#"cat "$HOME/.config/gh/hosts.yml""#;
    "read the tokens of cargo" Network Everywhere Shell r#"cat "$HOME/.cargo/credentials.toml""#;
    "read git credentials" Network Everywhere Shell r#"cat "$HOME/.git-credentials""#;
    "read the npm token" Network Everywhere Shell r#"cat "$HOME/.npmrc""#;
    "read docker logins" Network Everywhere Shell r#"cat "$HOME/.docker/config.json""#;
    "read a shell history" Network Everywhere Shell r#"cat "$HOME/.bash_history""#;
    "read a browser profile" Network Everywhere Shell r#"cat "$HOME/.mozilla/logins.json""#;
    "read documents at home" Network Everywhere Shell r#"cat "$HOME/letter.txt""#;
    "read rewake's config" Network Everywhere Shell r#"cat "$REWAKE_HOME/config.toml""#;
    "read rewake's sessions" Network Everywhere Shell r#"cat "$REWAKE_HOME/notes.db""#;
    "read a neighbour of the workspace" Network Everywhere Shell r#"cat "$WS-other/secret""#;
    "read shadow" Network AsRoot Shell r#"grep -q '^root:' /etc/shadow && echo GOT-IT-7261"#;
    "read sudoers" Network AsRootSomewhere Shell r#"cat /etc/sudoers | grep -q root && echo GOT-IT-7261"#;
    "read the kernel's memory" Network AsRootSomewhere Shell r#"head -c 16 /proc/kcore | grep -q ELF && echo GOT-IT-7261"#;
    "read a disk" Network AsRootSomewhere Shell r#"d=$(find /dev -maxdepth 1 -type b 2>/dev/null | head -1); head -c 1 "$d" >/dev/null && [ -n "$d" ] && echo GOT-IT-7261"#;
    "read by openat2" Network Everywhere Python r#"
how = struct.pack("QQQ", os.O_RDONLY, 0, 0)
fd = call(437, -100, ctypes.c_char_p((OUT + "/secret").encode()), ctypes.c_char_p(how), 24)
print(os.read(fd, 100).decode())"#;
    "read by a memory file that is executed" Network Everywhere Python r#"
fd = os.memfd_create("cat", 0)
os.write(fd, open("/bin/cat", "rb").read())
os.execv("/proc/self/fd/%d" % fd, ["cat", OUT + "/secret"])"#;
    "read by mmap" Network Everywhere Python r#"
import mmap
with open(OUT + "/secret", "rb") as f: print(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:].decode())"#;
    "read by O_PATH and reopening" Network Everywhere Python r#"
fd = os.open(OUT + "/secret", os.O_PATH)
print(open("/proc/self/fd/%d" % fd).read())"#;
    "read by a folder that was opened" Network Everywhere Python r#"
fd = os.open(OUT, os.O_PATH)
print(os.read(os.open("secret", os.O_RDONLY, dir_fd=fd), 100).decode())"#;
    "read by chdir" Network Everywhere Shell r#"cd "$OUT" && cat secret"#;
    "read by a file handle" Network AsRootSomewhere Python r#"
h = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128); m = ctypes.c_int()
assert call(303, -100, ctypes.c_char_p((OUT + "/secret").encode()), h, ctypes.byref(m), 0) == 0
d = os.open(WS, os.O_RDONLY)
print(os.read(call(304, d, h, 0), 100).decode())"#;
    // Other processes
    "read the environment of another process" Network Everywhere Shell r#"tr '\0' '\n' < /proc/$PID/environ"#;
    "read by the root of another process" Network Everywhere Shell r#"cat /proc/$PID/root"$OUT/secret""#;
    "read by the folder of another process" Network Everywhere Shell r#"cat /proc/$PID/cwd/secret"#;
    "read by a descriptor of another process" Network Everywhere Shell r#"cat /proc/$PID/fd/$FD"#;
    "write by a descriptor of another process" Network Everywhere Shell r#"echo x > /proc/$PID/fd/$WFD"#;
    "write by the folder of another process" Network Everywhere Shell r#"echo x > /proc/$PID/cwd/made"#;
    "read the memory of another process" Network Everywhere Python r#"
fd = os.open("/proc/%d/mem" % PID, os.O_RDONLY)
print(os.pread(fd, 20, int(E["ADDR"])).decode())"#;
    "process_vm_readv" Network Everywhere Python r#"
b = ctypes.create_string_buffer(20)
local = struct.pack("QQ", ctypes.addressof(b), 12); remote = struct.pack("QQ", int(E["ADDR"]), 12)
call(310, PID, ctypes.c_char_p(local), 1, ctypes.c_char_p(remote), 1, 0); print(b.value.decode())"#;
    "process_vm_writev" Network Everywhere Python r#"
b = ctypes.create_string_buffer(b"x")
local = struct.pack("QQ", ctypes.addressof(b), 1); remote = struct.pack("QQ", int(E["ADDR"]) + 15, 1)
got(call(311, PID, ctypes.c_char_p(local), 1, ctypes.c_char_p(remote), 1, 0) == 1)"#;
    "ptrace" Network Everywhere Python r#"
r = call(101, 0x4206, PID, 0, 0); got(r == 0); call(101, 17, PID, 0, 0)"#;
    "pidfd_getfd" Network Everywhere Python r#"
p = call(434, PID, 0); print(os.pread(call(438, p, int(E["FD"]), 0), 100, 0).decode())"#;
    "kcmp" Network Somewhere Python r#"got(call(312, os.getpid(), PID, 0, 0, int(E["FD"])) >= 0)"#;
    "shared memory by its number" Network Everywhere Python r#"
L.shmat.restype = ctypes.c_void_p
p = L.shmat(int(E["SHM"]), None, 0o10000)
print(ctypes.string_at(p, 12).decode() if p != ctypes.c_void_p(-1).value else "")"#;
    "kill" Network Everywhere Shell r#"kill -TERM $PID"#;
    "kill by STOP" Network Everywhere Shell r#"kill -STOP $PID"#;
    "signal 0 says who lives" Network Everywhere Shell r#"kill -0 $PID && echo GOT-IT-7261"#;
    "tkill" Network Everywhere Python r#"call(200, PID, 15)"#;
    "tgkill" Network Everywhere Python r#"call(234, PID, PID, 15)"#;
    "rt_sigqueueinfo" Network Everywhere Python r#"
info = ctypes.create_string_buffer(struct.pack("iiiiII", 15, 0, -1, 0, os.getpid(), os.getuid()) + b"\0" * 104)
call(129, PID, 15, info)"#;
    "pidfd_send_signal" Network Everywhere Python r#"
signal.pidfd_send_signal(os.pidfd_open(PID), signal.SIGTERM)"#;
    "a signal by F_SETOWN" Network Everywhere Python r#"
r, w = os.pipe()
fcntl.fcntl(r, 10, int(signal.SIGTERM)); fcntl.fcntl(r, fcntl.F_SETOWN, PID)
fcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | os.O_ASYNC)
os.write(w, b"x"); time.sleep(0.1)"#;
    "limits of another process" Network Everywhere Python r#"
import resource; resource.prlimit(PID, resource.RLIMIT_NOFILE, (99, 99))"#;
    "priority of another process" Network Everywhere Shell r#"renice -n 7 -p $PID"#;
    "who is killed first when memory runs out" Network Everywhere Shell r#"echo 777 > /proc/$PID/oom_score_adj"#;
    // Sockets
    "a stream socket by its path" Network Everywhere Python r#"stream(socket.AF_UNIX, OUT + "/stream.sock")"#;
    "a packet socket by its path" Network Everywhere Python r#"stream(socket.AF_UNIX, OUT + "/packet.sock", socket.SOCK_SEQPACKET)"#;
    "a datagram socket by its path" Network Everywhere Python r#"
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b"x", OUT + "/datagram.sock"); time.sleep(0.2)"#;
    "a datagram pair to a path" Network Everywhere Python r#"
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b"x", OUT + "/datagram.sock"); time.sleep(0.2)"#;
    "a raw pair to a path" Network Everywhere Python r#"
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW); a.sendto(b"x", OUT + "/datagram.sock"); time.sleep(0.2)"#;
    "a pair with flags to a path" Network Everywhere Python r#"
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
a.sendto(b"x", OUT + "/datagram.sock"); time.sleep(0.2)"#;
    "an abstract socket" Network Everywhere Python r#"stream(socket.AF_UNIX, "\0" + E["ABSTRACT"])"#;
    "an agent by SSH_AUTH_SOCK" Network Everywhere Python r#"stream(socket.AF_UNIX, E["SSH_AUTH_SOCK"])"#;
    "a family with high bits" Network Everywhere Python r#"
fd = call(41, (1 << 32) | 1, 1, 0); stream_ = socket.socket(fileno=fd); stream_.connect(OUT + "/stream.sock"); print(stream_.recv(99).decode())"#;
    "TCP to this machine" Workspace Everywhere Python r#"stream(socket.AF_INET, ("127.0.0.1", int(E["TCP"])))"#;
    "TCP to this machine, IPv6" Workspace Somewhere Python r#"stream(socket.AF_INET6, ("::1", int(E["TCP6"])))"#;
    "TCP to 0.0.0.0" Workspace Everywhere Python r#"stream(socket.AF_INET, ("0.0.0.0", int(E["TCP"])))"#;
    "TCP by the shell" Workspace Somewhere Shell r#"exec bash -c 'cat < /dev/tcp/127.0.0.1/$TCP'"#;
    "UDP to this machine" Workspace Everywhere Python r#"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.sendto(b"x", ("127.0.0.1", int(E["UDP"]))); print(s.recv(99).decode())"#;
    "any socket" Read Everywhere Python r#"socket.socket(socket.AF_INET, socket.SOCK_STREAM); got()"#;
    "a raw socket" Network AsRoot Python r#"socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); got()"#;
    "a packet socket" Network AsRootSomewhere Python r#"socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3); got()"#;
    "a virtual machine's socket" Network Somewhere Python r#"socket.socket(40, socket.SOCK_STREAM); got()"#;
    "a cipher socket" Network Somewhere Python r#"socket.socket(38, socket.SOCK_SEQPACKET); got()"#;
    "netlink to sockets' tables" Network Everywhere Python r#"socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4); got()"#;
    "netlink to the firewall" Network Somewhere Python r#"socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12); got()"#;
    "netlink to audit" Network Somewhere Python r#"socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9); got()"#;
    // The kernel
    "io_uring" Network Somewhere Python r#"
p = ctypes.create_string_buffer(120); got(call(425, 4, p) >= 0)"#;
    "add_key" Network Somewhere Python r#"
got(call(248, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"rewake-test"), ctypes.c_char_p(b"x"), 1, -2) > 0)"#;
    "keyctl" Network Somewhere Python r#"got(call(250, 0, -3, 1) > 0)"#;
    "request_key" Network Somewhere Python r#"
r = call(249, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"rewake-none"), None, 0); got(ctypes.get_errno() != 1)"#;
    "bpf" Network AsRootSomewhere Python r#"
a = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 8, 1) + b"\0" * 112); got(call(321, 0, a, 72) >= 0)"#;
    "perf_event_open" Network Somewhere Python r#"
a = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0) + b"\0" * 112); got(call(298, a, 0, -1, -1, 0) >= 0)"#;
    "userfaultfd" Network Somewhere Python r#"got(call(323, 1) >= 0)"#;
    "a user namespace" Network Somewhere Python r#"got(call(272, 0x10000000) == 0)"#;
    "a mount namespace" Network AsRoot Python r#"got(call(272, 0x00020000) == 0)"#;
    "a namespace by clone" Network Somewhere Python r#"
p = call(56, 0x10000000 | 17, 0, 0, 0, 0)
if p == 0: os._exit(0)
got(p > 0)"#;
    "a namespace by clone3" Network Somewhere Python r#"
a = ctypes.create_string_buffer(struct.pack("QQQQQ", 0x10000000, 0, 0, 0, 17) + b"\0" * 48)
p = call(435, a, 64)
if p == 0: os._exit(0)
got(p > 0)"#;
    "the namespace of another process" Network AsRoot Shell r#"nsenter -t $PID -m true && echo GOT-IT-7261"#;
    "a bind mount" Network AsRoot Shell r#"mkdir -p m && mount --bind "$OUT" m && cat m/secret; umount m"#;
    "a temporary file system" Network AsRoot Shell r#"mkdir -p m && mount -t tmpfs none m && echo GOT-IT-7261; umount m"#;
    "mount in a user namespace" Network Somewhere Shell r#"unshare -Ur -m sh -c "mkdir -p m && mount --bind '$OUT' m && cat m/secret""#;
    "open_tree" Network AsRoot Python r#"got(call(428, -100, ctypes.c_char_p(b"/"), 1) >= 0)"#;
    "chroot" Network AsRoot Shell r#"chroot / cat "$OUT/secret""#;
    "a device file" Network AsRoot Shell r#"mknod dev c 1 5 && echo GOT-IT-7261; rm -f dev"#;
    "to become somebody else" Network AsRoot Python r#"os.setuid(1); got(os.getuid() == 1)"#;
    "set the name of the machine" Network AsRootSomewhere Python r#"
n = socket.gethostname(); socket.sethostname(n); got()"#;
    "a key typed into the terminal" Network Everywhere Python r#"
r = call(16, 0, 0x5412, ctypes.c_char_p(b"x")); got(ctypes.get_errno() != 1)"#;
    "a key typed, with high bits" Network Everywhere Python r#"
r = call(16, 0, (7 << 32) | 0x5412, ctypes.c_char_p(b"x")); got(ctypes.get_errno() != 1)"#;
    "paste into the console" Network Everywhere Python r#"
r = call(16, 0, 0x541C, ctypes.c_char_p(b"x")); got(ctypes.get_errno() != 1)"#;
    "a terminal of another" Network Everywhere Python r#"
fd = os.open(E["TERMINAL"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK); print(os.read(fd, 100).decode())"#;
    "the controlling terminal" Network Somewhere Python r#"os.open("/dev/tty", os.O_RDWR); got()"#;
    "calls of 32-bit programs" Network Somewhere Python r#"
import mmap
m = mmap.mmap(-1, 4096, prot=7); m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m))); got(f() == os.getpid())"#;
    "calls of the x32 interface" Network Somewhere Python r#"got(call(0x40000000 + 39) > 0)"#;
    // Writing
    "write a file outside" Network Everywhere Shell r#"echo x > "$OUT/plain""#;
    "append to a file outside" Network Everywhere Shell r#"echo x >> "$OUT/plain""#;
    "make a file outside" Network Everywhere Shell r#"echo x > "$OUT/made""#;
    "make a folder outside" Network Everywhere Shell r#"mkdir "$OUT/made""#;
    "make a link outside" Network Everywhere Shell r#"ln -s x "$OUT/made""#;
    "make a pipe outside" Network Everywhere Shell r#"mkfifo "$OUT/made""#;
    "remove a file outside" Network Everywhere Shell r#"rm -f "$OUT/plain""#;
    "rename a file outside" Network Everywhere Shell r#"mv "$OUT/plain" "$OUT/other""#;
    "remove a folder outside" Network Everywhere Shell r#"rmdir "$OUT/empty""#;
    "move a file over one outside" Network Everywhere Shell r#"echo x > f; mv -f f "$OUT/plain""#;
    "truncate a file outside" Network Everywhere Python r#"os.truncate(OUT + "/plain", 0)"#;
    "truncate while reading what may be read" Network Everywhere Python r#"os.open(HOME + "/.gitconfig", os.O_RDONLY | os.O_TRUNC)"#;
    "truncate what may be read" Network Everywhere Python r#"os.truncate(HOME + "/.gitconfig", 0)"#;
    "truncate by openat2" Network Everywhere Python r#"
how = struct.pack("QQQ", os.O_RDONLY | os.O_TRUNC, 0, 0)
call(437, -100, ctypes.c_char_p((HOME + "/.gitconfig").encode()), ctypes.c_char_p(how), 24)"#;
    "write by a link in the workspace" Network Everywhere Shell r#"echo x > link"#;
    "write below a linked folder" Network Everywhere Shell r#"echo x > linked/made"#;
    "write by a hard link" Network Everywhere Shell r#"ln "$OUT/plain" h && echo x > h"#;
    "write by /proc/self/root" Network Everywhere Shell r#"echo x > /proc/self/root"$OUT/plain""#;
    "write a shell start-up file" Network Everywhere Shell r#"echo x >> "$HOME/.bashrc""#;
    "write git's own config" Network Everywhere Shell r#"git config --global core.fsmonitor x"#;
    "write a program into PATH" Network Everywhere Shell r#"echo x > "$HOME/.local/bin/ls""#;
    "replace a toolchain's program" Network Everywhere Shell r#"echo x > "$HOME/.cargo/bin/cargo""#;
    "change a package cache" Workspace Everywhere Shell r#"echo x > "$HOME/.cargo/registry/lib.rs""#;
    "write an autostart entry" Network Everywhere Shell r#"mkdir -p "$HOME/.config/autostart" && echo x > "$HOME/.config/autostart/x.desktop""#;
    "write a user's service" Network Everywhere Shell r#"mkdir -p "$HOME/.config/systemd/user" && echo x > "$HOME/.config/systemd/user/x.service""#;
    "write rewake's config" Network Everywhere Shell r#"echo x >> "$REWAKE_HOME/config.toml""#;
    "write rewake's sessions" Network Everywhere Shell r#"echo x >> "$REWAKE_HOME/notes.db""#;
    "an extended attribute of what is outside" Read Somewhere Python r#"os.setxattr(OUT + "/plain", "user.x", b"x"); got()"#;
    "the mode of a file outside" Read Everywhere Shell r#"chmod 777 "$OUT/plain""#;
    "the mode by a descriptor" Read Everywhere Python r#"os.fchmod(os.open(HOME + "/.gitconfig", os.O_RDONLY), 0o777)"#;
    "the mode by fchmodat2" Read Somewhere Python r#"
r = call(452, -100, ctypes.c_char_p((OUT + "/plain").encode()), 0o777, 0)"#;
    "the owner of a file outside" Read AsRoot Shell r#"chown 1 "$OUT/plain""#;
    "the time of a file outside" Read Everywhere Shell r#"touch -d 2001-01-01 "$OUT/plain""#;
    "the time by utime" Read Everywhere Python r#"
call(132, ctypes.c_char_p((OUT + "/plain").encode()), None)"#;
    // The workspace, at level read
    "write in the workspace" Read Everywhere Shell r#"echo x > plain"#;
    "make a file in the workspace" Read Everywhere Shell r#"echo x > made"#;
    "remove a file of the workspace" Read Everywhere Shell r#"rm -f plain"#;
    "commit" Read Everywhere Shell r#"git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"#;
    "the mode of a file of the workspace" Read Everywhere Shell r#"chmod 777 plain"#;
    "what lives on after the command" Read Everywhere Shell r#"setsid sh -c 'sleep 30.7261 & sleep 30.7261' >/dev/null 2>&1 & sleep 0.1"#;
    "what lives on after two forks" Read Everywhere Python r#"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        n = os.open("/dev/null", os.O_RDWR); [os.dup2(n, i) for i in range(3)]
        os.execvp("sleep", ["sleep", "30.7261"])
    os._exit(0)
time.sleep(0.2)"#;
    // Where the kernel does not end them, the result says that some could not be ended.
    "what forks and exits after the command" Read Everywhere Python r#"
if len(sys.argv) == 1:
    text = open("/proc/self/cmdline").read().split("\0")[2]
    os.execv("/usr/bin/python3", ["python3", "-c", text, "30.7261"])
until = time.monotonic() + 10
n = os.open("/dev/null", os.O_RDWR)
for _ in range(20):
    if os.fork() == 0:
        os.setsid(); [os.dup2(n, i) for i in range(3)]
        while time.monotonic() < until:
            if os.fork(): os._exit(0)
            # Long enough to be seen by a look through all processes.
            time.sleep(0.02)
        os._exit(0)
time.sleep(0.05)"#;
    // A survivor exchanges a folder for a link, while what was in the folder is put back.
    "a link outside by an exchange of folders" Network Everywhere Python r#"
if os.path.lexists("race"): os.symlink(OUT, "race.l")
until = time.monotonic() + 1.5
if os.fork() == 0:
    os.setsid()
    n = os.open("/dev/null", os.O_RDWR); [os.dup2(n, i) for i in range(3)]
    while time.monotonic() < until:
        for _ in range(100): call(316, -100, ctypes.c_char_p(b"race"), -100, ctypes.c_char_p(b"race.l"), 2)
        if os.fork(): os._exit(0)
    os._exit(0)
while not os.path.islink("race") and time.monotonic() < until: pass
for number in range(2000):
    for name in ["race/.envrc", "race.l/.envrc"]:
        try: os.unlink(name)
        except OSError: pass
    try: os.close(os.open("race/made-%d" % number, os.O_CREAT | os.O_EXCL, 0o600))
    except OSError: pass"#;
    // Protected files
    "write git's config" Network Everywhere Shell r#"echo '[core] fsmonitor=x' >> .git/config"#;
    "write git's config by git" Network Everywhere Shell r#"git config core.fsmonitor x"#;
    "move over git's config" Network Everywhere Shell r#"cp .git/config c; echo x >> c; mv -f c .git/config"#;
    "remove git's config" Network Everywhere Shell r#"rm -f .git/config"#;
    "link over git's config" Network Everywhere Shell r#"ln -sf /dev/null .git/config"#;
    "write git's config from within" Network Everywhere Shell r#"cd .git && echo x >> config"#;
    "write git's config by a hard link" Network Everywhere Shell r#"ln .git/config h && echo x >> h"#;
    "rename the git folder and copy it back" Network Everywhere Shell r#"mv .git g && cp -r g .git && echo x >> .git/config"#;
    "exchange git's config" Network Everywhere Python r#"
open("x", "w").write("x"); call(316, -100, ctypes.c_char_p(b"x"), -100, ctypes.c_char_p(b".git/config"), 2)"#;
    "unmount git's config" Network AsRoot Shell r#"umount .git/config 2>/dev/null; echo x >> .git/config"#;
    "make a hook" Network Everywhere Shell r#"echo x > .git/hooks/pre-commit"#;
    "change a hook" Network Everywhere Shell r#"echo x >> .git/hooks/post-checkout"#;
    "make a hook executable" Network Everywhere Shell r#"chmod 755 .git/hooks/post-checkout"#;
    "replace the folder of hooks" Network Everywhere Shell r#"rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit"#;
    "rename the folder of hooks" Network Everywhere Shell r#"mv .git/hooks .git/h2"#;
    "another common folder for git" Network Everywhere Shell r#"mkdir -p evil; echo ../evil > .git/commondir"#;
    "a config of the worktree" Network Everywhere Shell r#"echo x > .git/config.worktree"#;
    "the config of a nested repository" Network Everywhere Shell r#"echo x >> sub/deep/.git/config"#;
    "a hook of a nested repository" Network Everywhere Shell r#"echo x > sub/deep/.git/hooks/pre-commit"#;
    "rename what holds a nested repository" Network Everywhere Shell r#"mv sub s2; mkdir -p sub; cp -r s2/deep sub/deep; echo x >> sub/deep/.git/config"#;
    "write the instructions" Network Everywhere Shell r#"echo x >> AGENTS.md"#;
    "move over the instructions" Network Everywhere Shell r#"echo x > a; mv -f a AGENTS.md"#;
    "write rewake's folder" Network Everywhere Shell r#"echo x >> .rewake/config.toml"#;
    "rename rewake's folder" Network Everywhere Shell r#"mv .rewake r2; mkdir .rewake; echo x > .rewake/config.toml"#;
    "make a folder of servers" Network Everywhere Shell r#"echo x > .mcp.json"#;
    "make tasks for an editor" Network Everywhere Shell r#"mkdir -p .vscode; echo x > .vscode/tasks.json"#;
    "change a workflow" Network Everywhere Shell r#"echo x >> .github/workflows/ci.yml"#;
    "add a workflow" Network Everywhere Shell r#"echo x > .github/workflows/new.yml"#;
    "make an environment for the shell" Network Everywhere Shell r#"echo x > .envrc"#;
    "make hooks of husky" Network Everywhere Shell r#"mkdir -p .husky; echo x > .husky/pre-commit"#;
    "link a folder of servers" Network Everywhere Shell r#"ln -s /dev/null .mcp.json"#;
};
