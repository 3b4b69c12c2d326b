"""A client on `agent-client-protocol` of PyPI: python client.py BINARY prompt|cancel|load FOLDER"""
import asyncio, os, sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

binary, what, cwd = sys.argv[1:]
updates = []


class Client:
    async def request_permission(self, session_id, tool_call, options, **_):
        option = next(option for option in options if option.kind == 'allow_once')
        outcome = AllowedOutcome(outcome='selected', option_id=option.option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        updates.append(update)

    def on_connect(self, conn):
        pass


def text():
    chunks = (update for update in updates if update.session_update == 'agent_message_chunk')
    return ''.join(chunk.content.text for chunk in chunks)


async def main():
    session = os.path.join(cwd, 'session-python')
    async with spawn_agent_process(Client(), binary, 'acp', env=dict(os.environ), cwd=cwd) as (conn, _):
        hello = await conn.initialize(PROTOCOL_VERSION)
        assert hello.protocol_version == 1 and hello.agent_capabilities.load_session
        if what == 'load':
            session_id = open(session).read()
            await conn.load_session(cwd=cwd, session_id=session_id, mcp_servers=[])
            states = [update.status for update in updates if getattr(update, 'status', None)]
            assert states and states[-1] != 'in_progress', states
            listed = await conn.list_sessions(cwd=cwd)
            assert session_id in [one.session_id for one in listed.sessions]
            await conn.close_session(session_id)
            return
        opened = await conn.new_session(cwd=cwd, mcp_servers=[])
        assert opened.modes.current_mode_id == 'default'
        answer = asyncio.ensure_future(conn.prompt(session_id=opened.session_id, prompt=[text_block('do it')]))
        if what == 'cancel':
            with open(session, 'w') as file:
                file.write(opened.session_id)
            while not os.path.exists(os.path.join(cwd, 'started')):
                await asyncio.sleep(0.02)
            await conn.cancel(opened.session_id)
            assert (await answer).stop_reason == 'cancelled'
            return
        assert (await answer).stop_reason == 'end_turn'
        assert text() == 'I write it. done', text()


asyncio.run(main())
