"""Parts that the scripts for real servers share: runs of rewake, servers, and a proxy that records."""
import contextlib, http.client, json, os, socket, subprocess, threading, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = 'sk-partner-1234'


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_for(url, process, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            return False
        try:
            urllib.request.urlopen(url, timeout=2).read()
            return True
        except OSError:
            time.sleep(0.5)
    return False


class Agent:
    """rewake with a home and a workspace of its own, and one provider."""
    def __init__(self, binary, folder, base_url, protocol='openai-chat', config='', window=None, tries=1):
        self.binary, self.folder = binary, folder
        self.home, self.work = os.path.join(folder, 'home'), os.path.join(folder, 'work')
        os.makedirs(self.home, exist_ok=True)
        os.makedirs(self.work, exist_ok=True)
        with open(os.path.join(self.home, 'config.toml'), 'w') as file:
            file.write(
                f'model = "partner/m"\n[retry]\ntries = {tries}\n'
                f'[providers.partner]\nprotocol = "{protocol}"\nbase_url = "{base_url}"\n{config}\n')
            if window:
                file.write(f'[models."partner/m"]\ncontext_window = {window}\n')

    def start(self, *arguments):
        env = {'PATH': os.environ['PATH'], 'HOME': self.folder, 'REWAKE_HOME': self.home, 'PARTNER_KEY': KEY}
        errors = os.path.join(self.folder, 'stderr')
        with open(errors, 'w') as file:
            process = subprocess.Popen(
                [self.binary, '-p', '--output-format', 'stream-json', *arguments], cwd=self.work, env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True)
        return Run(process, errors)

    def ask(self, *arguments):
        return self.start(*arguments).end()


class Run:
    """A rewake that runs."""
    def __init__(self, process, errors):
        self.process, self.errors, self.lines = process, errors, []
        self.limit = threading.Timer(900, process.kill)
        self.limit.daemon = True
        self.limit.start()

    def wait_for(self, kind):
        """Returns the first event of this kind, or `None` at the end."""
        for line in self.process.stdout:
            self.lines.append(line)
            event = json.loads(line)
            if event['type'] == kind:
                return event
        return None

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        self.lines += self.process.stdout
        code = self.process.wait()
        self.limit.cancel()
        with open(self.errors) as errors:
            return subprocess.CompletedProcess(self.process.args, code, ''.join(self.lines), errors.read())


def ask(binary, protocol, base_url, prompt, folder, flags=('--yolo',), config='', window=32000):
    """One run of rewake in a home that is made with the first."""
    return Agent(binary, folder, base_url, protocol, config, window).ask(prompt, *flags)


def wait_until(holds, process=None, seconds=300):
    """Waits for something of another process. Returns whether it came."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until or (process and process.poll() is not None):
            return holds()
        time.sleep(0.05)
    return True


def events(run):
    """The lines of stream-json; the last one is the result."""
    try:
        return [json.loads(line) for line in run.stdout.splitlines()] or [{}]
    except ValueError:
        return [{}]


def of_kind(run, kind):
    return [event for event in events(run) if event.get('type') == kind]


def verdict(name, run, good, code=0):
    is_good = run.returncode == code and bool(good(events(run)[-1]))
    return report(name, is_good, f'exit code {run.returncode}\n  {run.stdout.strip()[-600:]}\n  {run.stderr.strip()[-900:]}')


def report(name, is_good, details=''):
    """Prints whether a check is good, and details only if it is not."""
    print(f'{"ok    " if is_good else "failed"} {name}', flush=True)
    if not is_good and details:
        print(f'  {details}', flush=True)
    return is_good


class Forward(BaseHTTPRequestHandler):
    """One request through the proxy."""
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.forward('GET', self.path, None)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get('content-length') or 0)))
        seen = {'asked': json.loads(json.dumps(body)), 'status': None, 'counts': None, 'words': ''}
        self.server.seen.append(seen)
        self.server.change(body)
        self.server.answer(self, body, seen)

    def forward(self, method, path, body, seen=None):
        """Passes on the answer line by line. The server sees that rewake is gone when the connection ends."""
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=900)
        with contextlib.closing(upstream), contextlib.suppress(OSError, http.client.HTTPException):
            upstream.request(method, path, body and json.dumps(body), {'content-type': 'application/json'})
            answer = upstream.getresponse()
            self.head(answer.status, answer.headers['content-type'])
            if seen is not None:
                seen['status'] = answer.status
            has_words = False
            for line in answer:
                if seen is not None:
                    note(seen, line)
                self.wfile.write(line)
                self.wfile.flush()
                has_words |= b'"content":"' in line
                # The blank line ends the event.
                if has_words and not line.strip():
                    self.server.open.wait()

    def head(self, status, kind):
        self.send_response(status)
        self.send_header('content-type', kind)
        self.send_header('connection', 'close')
        self.end_headers()


def note(seen, line):
    """Notes the counts of llama.cpp, or the words of its refusal, which may be inside of an answer."""
    if seen['status'] != 200 or b'"error":' in line:
        seen['words'] += line.decode()
    elif b'"timings"' in line:
        seen['counts'] = json.loads(line.removeprefix(b'data: '))['timings']


class Proxy(ThreadingHTTPServer):
    """Stands between rewake and a server, records each request, and may change it."""
    daemon_threads = True

    def __init__(self, base, change=lambda body: None):
        super().__init__(('127.0.0.1', 0), Forward)
        self.upstream, self.change, self.seen = base.removeprefix('http://'), change, []
        # While it is not set, an answer stops after its first words.
        self.open = threading.Event()
        self.open.set()
        self.url = f'http://127.0.0.1:{self.server_address[1]}'
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, request, body, seen):
        request.forward('POST', request.path, body, seen)


def built(name):
    """Returns the path of a part that tests/partners/build-llama-server made, or `None`."""
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    folder = os.environ.get('PARTNERS_DIR') or os.path.join(cache, 'rewake-partners')
    path = os.path.join(folder, name)
    return path if os.path.exists(path) else None


class LlamaServer:
    """A running one, or `None` for `with … as` when it does not start."""
    def __init__(self, program, folder, *flags, port=None):
        self.port = port or free_port()
        self.log = open(os.path.join(folder, f'llama-server-{self.port}.log'), 'w')
        self.process = subprocess.Popen(
            [program, '--host', '127.0.0.1', '--port', str(self.port), '--seed', '1', *flags],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def __enter__(self):
        if wait_for(f'http://127.0.0.1:{self.port}/health', self.process, 120):
            return f'http://127.0.0.1:{self.port}'
        print('failed llama-server does not start:', open(self.log.name).read()[-800:])
        return None

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
