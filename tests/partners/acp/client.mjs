// A client on `@agentclientprotocol/sdk`: node client.mjs PACKAGES BINARY prompt|cancel|load FOLDER
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { Readable, Writable } from 'node:stream';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert';

const [packages, binary, what, cwd] = process.argv.slice(2);
const entry = createRequire(packages + '/').resolve('@agentclientprotocol/sdk');
const acp = await import(pathToFileURL(entry));
const agent = spawn(binary, ['acp'], { stdio: ['pipe', 'pipe', 'inherit'], cwd });
const updates = [];

const client = acp.client({ name: 'partner' })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
        const option = params.options.find(option => option.kind === 'allow_once');
        return { outcome: { outcome: 'selected', optionId: option.optionId } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => { updates.push(params.update); });

const text = () => updates.filter(u => u.sessionUpdate === 'agent_message_chunk').map(u => u.content.text).join('');
const statuses = () => updates.filter(u => u.status).map(u => u.status);
const until = async isSo => {
    while (!isSo()) await new Promise(resolve => setTimeout(resolve, 20));
};

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await client.connectWith(stream, async ctx => {
    const of = acp.methods.agent;
    const hello = await ctx.request(of.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    assert.equal(hello.protocolVersion, 1);
    assert(hello.agentCapabilities.loadSession);
    const session = cwd + '/session-node';
    if (what === 'load') {
        const sessionId = readFileSync(session, 'utf8');
        await ctx.request(of.session.load, { sessionId, cwd, mcpServers: [] });
        assert(!statuses().slice(-1).includes('in_progress'));
        const listed = await ctx.request(of.session.list, { cwd });
        assert(listed.sessions.some(one => one.sessionId === sessionId));
        await ctx.request(of.session.close, { sessionId });
        return;
    }
    const opened = await ctx.request(of.session.new, { cwd, mcpServers: [] });
    assert.equal(opened.modes.currentModeId, 'default');
    const prompt = { sessionId: opened.sessionId, prompt: [{ type: 'text', text: 'do it' }] };
    const answer = ctx.request(of.session.prompt, prompt);
    if (what === 'cancel') {
        writeFileSync(session, opened.sessionId);
        await until(() => existsSync(cwd + '/started'));
        await ctx.notify(of.session.cancel, { sessionId: opened.sessionId });
        assert.equal((await answer).stopReason, 'cancelled');
        return;
    }
    assert.equal((await answer).stopReason, 'end_turn');
    assert.equal(text(), 'I write it. done');
    assert.deepEqual(statuses(), ['pending', 'in_progress', 'completed']);
});
agent.stdin.end();
await new Promise(resolve => agent.on('exit', resolve));
process.exit(0);
