"""rewake against llama.cpp's server with SmolLM2-135M, and with each chat template that llama.cpp ships.

The model is real, and as small as one can be: what it says does not matter. Each check waits for an event.
"""
import contextlib, glob, json, os, signal, subprocess, urllib.error, urllib.request
from rig import Agent, LlamaServer, Proxy, built, events, of_kind, report, verdict, wait_until

# SmolLM2's own template has no tools. This one has the same marks of a turn; a call gets marks that are single
# tokens of SmolLM2, so that the odds of a token can begin it.
TEMPLATE = 'Qwen-Qwen2.5-7B-Instruct.jinja'
MARKS = [('<tool_call>\\n', '<jupyter_code>'), ('\\n</tool_call>', '<jupyter_output>'),
         ('<tool_call>', '<jupyter_code>'), ('</tool_call>', '<jupyter_output>')]
TURN_END, CALL = 2, 13
RUN = 'run the command'
YOLO = '--yolo'

# Targets.
NEW_SESSION_TOKENS = 60
SUMMARY_SHARE = 0.15
TEMPLATES_AT_ONCE, TEMPLATES_AFTER_ONE = 62, 70


def smollm2(folder, window, *flags):
    """Flags for a window that may be larger than the one of the training. One thread: several wait for each other
    where others compute, too."""
    with open(os.path.join(built('templates'), TEMPLATE)) as file:
        text = file.read()
    for old, new in MARKS:
        text = text.replace(old, new)
    template = os.path.join(folder, 'smollm2.jinja')
    with open(template, 'w') as file:
        file.write(text)
    return ['-m', built('smollm2.gguf'), '-t', '1', '-c', str(window), '--override-kv',
            f'llama.context_length=int:{window}', '--temp', '0', '--jinja', '--chat-template-file', template, *flags]


# Words of an answer end before one of these: so small a model says nothing otherwise, or repeats itself to the limit.
STOPS = ['.', ' the', ' a', ' to', ' of', '\n\n']


def calls_when_told(command):
    """Returns a change of requests: the server's grammar makes a call of `bash` with this command, after a
    message that says so."""
    def change(body):
        tools = body.get('tools') or []
        for tool in tools:
            if tool['function']['name'] == 'bash':
                tool['function']['parameters']['properties'] = {'command': {'const': command}}
        last = body['messages'][-1]
        if is_summary(last):
            return
        if tools and last['role'] == 'user' and RUN in str(last['content']):
            # This server has no choice of one tool, and allows words before a call. The odds choose.
            odds = [[CALL, 100], [TURN_END, 200], ['bash', 50], ['_stop', -100], ['_wait', -100], ['_', -100]]
            body.update(tool_choice='required', logit_bias=odds)
        elif tools:
            body.update(stop=STOPS, logit_bias=[[TURN_END, -100]])
    return change


def is_summary(message):
    words = ('Write the memory that replaces', 'Now write what was asked for')
    return message['role'] == 'user' and any(part in str(message['content']) for part in words)


def learnt(run):
    return [event['limit'] for event in of_kind(run, 'entry.learned') if event.get('limit')]


def pieces(run):
    return [event['text'] for event in of_kind(run, 'delta.text')]


def outputs(run):
    return [event['outcome'] for event in of_kind(run, 'entry.finished')]


def processed(seen):
    """Returns the tokens of the prompt that the server processed for these requests."""
    return sum(request['counts']['prompt_n'] for request in seen if request['counts'])


THINGS = ('tree river town hill bridge road field cloud star stone door window table spoon coat hat lamp clock '
          'wheel boat letter').split()


def prefix(binary, program, folder):
    """A window of 32,768: what the server reads again in later turns, after a kill, in a fork, in a new session."""
    with LlamaServer(program, folder, *smollm2(folder, 32768)) as base:
        if not base:
            return False
        proxy = Proxy(base, calls_when_told('echo partner-$((40 + 2))'))
        agent = Agent(binary, os.path.join(folder, 'prefix'), proxy.url + '/v1')

        def turn(*arguments):
            before = len(proxy.seen)
            run = agent.ask(YOLO, *arguments)
            return run, proxy.seen[before:]

        first, seen = turn('What is a tree? Answer in one sentence.')
        parts = pieces(first)
        good = verdict(f'SmolLM2: window {learnt(first)} was asked for, answer in {len(parts)} pieces', first,
                       lambda r: learnt(first) == [32768] and len(parts) > 1
                       and ''.join(parts).strip() == r['result'].strip())
        print(f'       turn 1: {processed(seen)} tokens of the prompt were processed')
        costs, calls = [], []
        for number in range(2, 21):
            run, seen = turn('-c', RUN if number % 4 == 0 else f'What is a {THINGS[number]}? Answer in one sentence.')
            if run.returncode:
                return verdict(f'SmolLM2: turn {number}', run, lambda _: False)
            costs += [request['counts']['prompt_n'] for request in seen]
            calls += outputs(run)
        done = [call['outcome'] == 'done' and 'partner-42' in call['output']['text'] for call in calls]
        good &= report(f'SmolLM2: {len(done)} constrained calls ran', len(done) == 5 and all(done), json.dumps(calls)[:900])
        print(f'       turns 2 to 20: {len(costs)} requests, processed tokens: {costs}')
        good &= report('SmolLM2: a turn processes its own tokens again, and no others', max(costs) <= 200)

        proxy.open.clear()
        killed = agent.start(YOLO, '-c', 'What is a wall? Answer in one sentence.')
        killed.wait_for('delta.text')
        killed.send(signal.SIGKILL)
        killed.end()
        proxy.open.set()
        good &= report('SmolLM2: the server frees the slot of a killed rewake', freed(base) < 1)
        for name, most, arguments in [
            ('after a kill', NEW_SESSION_TOKENS, ['-c']),
            ('in a fork', NEW_SESSION_TOKENS, ['-r', events(first)[-1]['session'], '--fork-session', 'What is a bird? Answer in one sentence.']),
            ('in a new session', NEW_SESSION_TOKENS, ['What is a fish? Answer in one sentence.']),
            ('in the next new session', NEW_SESSION_TOKENS, ['What is a horse? Answer in one sentence.']),
        ]:
            run, seen = turn(*arguments)
            tokens = processed(seen[:1])
            good &= verdict(f'SmolLM2: {name} {tokens} tokens were processed (target: {most})', run,
                            lambda r: r['result'] and seen and tokens <= most)
        return good


def slots(base):
    with urllib.request.urlopen(base + '/slots', timeout=60) as answer:
        return json.load(answer)


def busy(base):
    return [slot for slot in slots(base) if slot['is_processing']]


def freed(base):
    """Waits until no slot works. Returns the tokens that the last one had made by then, as a part of its limit."""
    parts = [0]

    def is_free():
        now = busy(base)
        parts.extend(slot['next_token'][0]['n_decoded'] / slot['params']['n_predict'] for slot in now)
        return not now
    return parts[-1] if wait_until(is_free) else 1


def kills(binary, program, folder):
    """Answers without an end: a stop, a kill of rewake and a kill of the server in the middle of each."""
    place = os.path.join(folder, 'kills')
    os.makedirs(place)
    endless = smollm2(place, 8192, '--ignore-eos')
    short = [flag for words in STOPS for flag in ('-r', words)]
    with contextlib.ExitStack() as running:
        server = LlamaServer(program, place, *endless)
        base = running.enter_context(server)
        if not base:
            return False
        agent = Agent(binary, place, base + '/v1', tries=3)

        def streams(*arguments):
            run = agent.start(YOLO, *arguments)
            return run, run.wait_for('delta.text') is not None and len(busy(base)) == 1

        run, streamed = streams('Tell me a story.')
        run.send(signal.SIGINT)
        part = freed(base)
        good = verdict(f'SmolLM2: a stop frees the slot, after {part:.0%} of the answer', run.end(),
                       lambda r: streamed and part < 0.9, code=130)

        run, streamed = streams('-c', 'Tell me another story.')
        run.send(signal.SIGKILL)
        part = freed(base)
        run.end()
        good &= report(f'SmolLM2: a kill of rewake frees the slot, after {part:.0%} of the answer', streamed and part < 0.9)

        run, streamed = streams('-c')
        server.process.kill()
        server.process.wait()
        again = running.enter_context(LlamaServer(program, place, *smollm2(place, 8192, *short), port=server.port))
        if not again:
            return False
        run = run.end()
        good &= verdict(f'SmolLM2: the resumed answer goes on after a kill of the server ({len(of_kind(run, "retry"))} retries)',
                        run, lambda r: streamed and r['result'])
        run = agent.ask(YOLO, '-c', 'What is a tree? Answer in one sentence.')
        good &= verdict('SmolLM2: and so does the session', run, lambda r: r['result'])
        shown = subprocess.run([binary, 'export', events(run)[-1]['session'], '--json'], capture_output=True, text=True,
                               env={**os.environ, 'REWAKE_HOME': agent.home}).stdout
        messages = ['Tell me a story.', 'Tell me another story.', 'What is a tree? Answer in one sentence.']
        once = all(shown.count(f'"{message}"') == 1 for message in messages)
        return good & report('SmolLM2: each message is in the log once', once, shown[:900])


PAGES = '''#!/bin/sh
n=$(($(cat number 2>/dev/null || echo 0) + 1)); echo $n > number
i=0; while [ $i -lt 24 ]; do i=$((i + 1)); echo "page $n, line $i: value $((n * 7919 * i % 10007)) of file-$n-$i.txt"; done
'''


def full(binary, program, folder):
    """A window of 4,096 that fills with results: compactions, and the tokens that summaries take."""
    place = os.path.join(folder, 'full')
    with LlamaServer(program, folder, *smollm2(folder, 4096)) as base:
        if not base:
            return False
        proxy = Proxy(base, calls_when_told('./next-page'))
        agent = Agent(binary, place, proxy.url + '/v1', tries=3)
        pages = os.path.join(agent.work, 'next-page')
        with open(pages, 'w') as file:
            file.write(PAGES)
        os.chmod(pages, 0o755)
        runs = []
        for number in range(1, 17):
            run = agent.ask(YOLO, *(['-c'] if runs else []), f'{RUN}, {number}')
            if run.returncode or not events(run)[-1].get('result'):
                return verdict(f'SmolLM2 at 4,096: turn {number}', run, lambda _: False)
            runs.append(run)
        good = report(f'SmolLM2 at 4,096: window {learnt(runs[0])} was asked for', learnt(runs[0]) == [4096])
        count = lambda kind: sum(len(of_kind(run, 'entry.' + kind)) for run in runs)
        shortened = {kind: count(kind) for kind in ('freed', 'closed', 'continued')}
        good &= report(f'SmolLM2 at 4,096: {len(runs)} turns go on, {shortened}',
                       shortened['closed'] + shortened['continued'] > 0)
        # A summary must not take the window from the request beside it.
        refused = [seen['words'] for seen in proxy.seen if seen['words']]
        good &= report(f'SmolLM2 at 4,096: {len(refused)} of {len(proxy.seen)} requests refused', not refused, refused)
        # What the server had to read for them, without what its cache had.
        of = lambda summaries: [seen for seen in proxy.seen if is_summary(seen['asked']['messages'][-1]) == summaries]
        main, spent = processed(of(False)), processed(of(True))
        print(f'       tokens processed: {main} for {len(of(False))} requests, {spent} for {len(of(True))} summaries')
        return good & report(f'SmolLM2 at 4,096: {spent / main:.2f} tokens of summaries for each other (target: {SUMMARY_SHARE})',
                             spent <= main * SUMMARY_SHARE)


class Template(Proxy):
    """Asks the server only for the prompt of each request, which its template makes or refuses. The answers are
    two calls with words before them, one call without, and words."""
    def answer(self, request, body, seen):
        asked = urllib.request.Request(f'http://{self.upstream}/apply-template', json.dumps(body).encode(),
                                       {'content-type': 'application/json'})
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:
                seen['status'], seen['words'] = 200, json.load(answer)['prompt']
        except urllib.error.HTTPError as refusal:
            words = refusal.read()
            seen['status'], seen['words'] = refusal.code, words.decode()
            request.head(refusal.code, 'application/json')
            return request.wfile.write(words)
        accepted = sum(other['status'] == 200 for other in self.seen)
        stream(request, [
            {'content': 'Both.', 'tool_calls': [call(0, 'echo first-$((1 + 1))'), call(1, 'echo second-$((1 + 1))')]},
            {'tool_calls': [call(2, 'echo third-$((1 + 1))')]},
            {'content': 'Done.'},
        ][min(accepted, 3) - 1])


def call(number, command):
    function = {'name': 'bash', 'arguments': json.dumps({'command': command})}
    return {'index': number % 2, 'id': f'call{number}', 'type': 'function', 'function': function}


def stream(request, delta):
    stop = 'tool_calls' if 'tool_calls' in delta else 'stop'
    head = {'id': 'x', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm'}
    chunks = [{**head, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]},
              {**head, 'choices': [{'index': 0, 'delta': {}, 'finish_reason': stop}]}]
    request.head(200, 'text/event-stream')
    request.wfile.write((''.join(f'data: {json.dumps(c)}\n\n' for c in chunks) + 'data: [DONE]\n\n').encode())


# All that the last prompt of the session has to have.
TOLD = ['look here', 'echo first', 'first-2', 'second-2', 'and the third?', 'echo third', 'third-2', 'Done.', 'and now?']


def templates(binary, program, folder, model):
    """A session with each template of llama.cpp: two calls in an answer, words of the user after results, a call
    without words. What /props says of the template decides the form of its first request."""
    files = sorted(glob.glob(os.path.join(built('templates'), '*.jinja')))
    refusals, silent = {}, []
    for file in files:
        name = os.path.basename(file).removesuffix('.jinja')
        place = os.path.join(folder, 'template-' + name)
        os.makedirs(place)
        with LlamaServer(program, place, '-m', model, '-c', '32768', '--jinja', '--chat-template-file', file) as base:
            if not base:
                return report(f'templates: {name}', False)
            proxy = Template(base)
            agent = Agent(binary, place, proxy.url + '/v1')
            agent.ask(YOLO, 'look here', '--max-turns', '1')
            agent.ask(YOLO, '-c', 'and the third?')
            run = agent.ask(YOLO, '-c', 'and now?')
            proxy.shutdown()
        refused = [seen for seen in proxy.seen if seen['status'] != 200]
        lost = [words for words in TOLD if words not in proxy.seen[-1]['words']]
        refusals[name] = len(refused) if run.returncode == 0 else len(files)
        silent += [name] if lost and not run.returncode else []
        if refused or run.returncode or lost:
            print(f'       {name}: {len(refused)} refused, exit code {run.returncode}, not in the prompt: {lost}')
            for seen in refused[:2]:
                print('        ', ' '.join(seen['words'].split())[-220:])
    print(f'       templates that leave something out of the prompt: {", ".join(silent)}')
    at_once, after_one = (sum(number <= most for number in refusals.values()) for most in (0, 1))
    good = report(f'templates: {at_once} of {len(files)} take each request (target: {TEMPLATES_AT_ONCE})',
                  at_once >= TEMPLATES_AT_ONCE)
    return good & report(f'templates: {after_one} of {len(files)} after at most one refusal (target: {TEMPLATES_AFTER_ONE})',
                         after_one >= TEMPLATES_AFTER_ONE)


def proof(binary, program, folder, tiny):
    """All checks. `tiny` is the model of tiny_model.py, which starts faster."""
    missing = [name for name in ('smollm2.gguf', 'templates') if not built(name)]
    if missing:
        return report(f'llama-server: {", ".join(missing)} is missing (tests/partners/build-llama-server brings it)', False)
    good = prefix(binary, program, folder)
    good &= kills(binary, program, folder)
    good &= full(binary, program, folder)
    return good & templates(binary, program, folder, tiny)
