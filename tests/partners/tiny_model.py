#!/usr/bin/env python3
"""Makes a model file (.gguf) that llama-server can serve: no training, no download.

    tests/partners/tiny_model.py FILE

It knows nothing. The next token follows from the last one alone (one-hot embeddings, layers of zeros,
a table of odds as the output matrix), so that it is small, quick, and does what a partner is needed for:
words until it ends, or a call. What stands in a call is as the server's grammar demands it, for the odds
alone give no JSON. A prompt is answered with a call; one with "words" in it, and a result, with words.

Needs `gguf` and `numpy` of PyPI.
"""
import random
import sys

import gguf
import numpy as np

SPECIAL = ['<unk>', '<s>', '</s>', '<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>', '\u2581']
UNKNOWN, BEGIN, END, TURN, TURN_END, CALL, CALL_END, BLANK = range(len(SPECIAL))
LETTERS = b'abcdefghijklmnopqrstuvwxyz'
WIDTH, HEAD, HIDDEN, WINDOW = 288, 16, 32, 131072

# ChatML with the calls of Hermes. A prompt that ends with a line break is followed by a call, one that
# ends with a blank by words.
TEMPLATE = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '# Tools\\n\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}{{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\n\\nA call is a JSON object within <tool_call></tool_call>:\\n' }}
    {{- '<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{\\"name\\": \\"' }}
            {{- tool_call.name }}
            {{- '\\", \\"arguments\\": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif message.role == 'user' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if messages[-1].role == 'user' and 'words' in messages[-1].content %}
        {{- ' ' }}
    {%- elif messages[-1].role == 'tool' %}
        {{- ' ' }}
    {%- endif %}
{%- endif %}
"""


def byte(value):
    return len(SPECIAL) + value


def odds():
    """Row: the last token; column: the next one. Natural logarithms; most never come."""
    table = np.full((WIDTH, WIDTH), -30.0, dtype=np.float32)
    chance = random.Random(1)
    quote, blank, line = byte(b'"'[0]), BLANK, byte(b'\n'[0])
    # Behind a blank stand words in capitals, which end by themselves. Nothing begins with the end.
    capitals = [byte(b) for b in LETTERS.upper()]
    for last in capitals + [blank]:
        for following in capitals:
            table[last][following] = chance.uniform(0, 2)
        table[last][blank] = 3 if last != blank else -30
        table[last][TURN_END] = 1 if last != blank else -30
    # Behind a line break stands a call. What is in its strings ends by itself too.
    table[line][CALL] = 30
    table[CALL][line] = 30
    table[CALL_END][TURN_END] = 30
    small = [byte(b) for b in LETTERS]
    for last in small:
        for following in small:
            table[last][following] = chance.uniform(0, 2)
        table[last][quote] = 3
    for following in small:
        table[quote][following] = 2
    table[quote][byte(b'g'[0])] = 12
    table[quote][byte(b'}'[0])] = 6
    for last in range(WIDTH):
        # Only where a grammar leaves nothing else.
        for following in b'{}[]:,0123456789':
            table[last][byte(following)] = max(table[last][byte(following)], -12)
        table[last][CALL_END] = max(table[last][CALL_END], -11)
        table[last][quote] = max(table[last][quote], -10)
    return table


def main(path):
    writer = gguf.GGUFWriter(path, 'llama')
    writer.add_name('tiny')
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(WIDTH)

    tokens = SPECIAL + [f'<0x{n:02X}>' for n in range(256)]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 4 + [gguf.TokenType.USER_DEFINED] * 2
    kinds += [gguf.TokenType.NORMAL]
    kinds += [gguf.TokenType.BYTE] * 256
    unused = WIDTH - len(tokens)
    tokens += [f'<unused{n}>' for n in range(unused)]
    kinds += [gguf.TokenType.UNUSED] * unused
    writer.add_tokenizer_model('llama')
    writer.add_tokenizer_pre('default')
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * WIDTH)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(TURN_END)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    def zeros(*shape):
        return np.zeros(shape, dtype=np.float32)

    ones = np.ones(WIDTH, dtype=np.float32)
    writer.add_tensor('token_embd.weight', np.eye(WIDTH, dtype=np.float32))
    writer.add_tensor('blk.0.attn_norm.weight', ones)
    for name in ('q', 'k', 'v'):
        writer.add_tensor(f'blk.0.attn_{name}.weight', zeros(HEAD, WIDTH))
    writer.add_tensor('blk.0.attn_output.weight', zeros(WIDTH, HEAD))
    writer.add_tensor('blk.0.ffn_norm.weight', ones)
    for name in ('gate', 'up'):
        writer.add_tensor(f'blk.0.ffn_{name}.weight', zeros(HIDDEN, WIDTH))
    writer.add_tensor('blk.0.ffn_down.weight', zeros(WIDTH, HIDDEN))
    writer.add_tensor('output_norm.weight', ones)
    # The norm makes the one of an embedding the root of the width.
    writer.add_tensor('output.weight', np.ascontiguousarray(odds().T) / np.float32(WIDTH ** 0.5))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
