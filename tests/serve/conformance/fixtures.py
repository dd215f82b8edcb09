"""The tools, resources and prompts that the protocol's conformance suite calls by name.

Takes: a low-level server of the SDK, with handlers of its own or none.
Gives: the same server, answering for the names of the suite as well; what is not a name of the
suite goes to the server's own handler. The request state of the suite's questions is sealed,
unless the server already seals it.
Refuses: an unknown resource, prompt or tool that the server does not know either.

This module is for tests. The package never imports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from lookfar.serve.mcp.changes import Changes

Context = ServerRequestContext[Any, Any]
ToolAnswer = t.CallToolResult | t.InputRequiredResult
ToolCall = Callable[[Context, t.CallToolRequestParams], Awaitable[ToolAnswer]]

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAF"
    "BQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}

TOOLS: dict[str, tuple[t.Tool, ToolCall]] = {}


def tool(schema: dict[str, Any] = NO_ARGUMENTS) -> Callable[[ToolCall], ToolCall]:
    """Enter a handler into the table under its own name, with its docstring as description."""

    def enter(call: ToolCall) -> ToolCall:
        name = call.__name__
        TOOLS[name] = (t.Tool(name=name, description=call.__doc__, input_schema=schema), call)
        return call

    return enter


def text(words: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=words)])


def strings(*names: str) -> dict[str, Any]:
    """The schema of an object whose named members are required strings."""
    members = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": members, "required": list(names)}


def question(message: str, schema: dict[str, Any]) -> t.ElicitRequest:
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


NAME = question("What is your name?", strings("name"))
CONFIRM = question(
    "Please confirm",
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
)


def sampling(words: str) -> t.CreateMessageRequest:
    message = t.SamplingMessage(role="user", content=t.TextContent(text=words))
    return t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def filled(answer: object, member: str) -> Any:
    """One member of an accepted form, or None when the answer is anything else."""
    if isinstance(answer, t.ElicitResult) and answer.action == "accept":
        return (answer.content or {}).get(member)
    return None


# Content of every kind.


@tool()
async def test_simple_text(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Plain text."""
    return text("This is a simple text response for testing.")


@tool()
async def test_image_content(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """An image."""
    return t.CallToolResult(content=[t.ImageContent(data=PNG, mime_type="image/png")])


@tool()
async def test_audio_content(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """A sound."""
    return t.CallToolResult(content=[t.AudioContent(data=WAV, mime_type="audio/wav")])


def embedded(uri: str, mime_type: str, words: str) -> t.EmbeddedResource:
    return t.EmbeddedResource(
        resource=t.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


@tool()
async def test_embedded_resource(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """A resource inside the result."""
    words = "This is an embedded resource content."
    return t.CallToolResult(content=[embedded("test://embedded-resource", "text/plain", words)])


@tool()
async def test_multiple_content_types(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Text, an image and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    return t.CallToolResult(
        content=[
            t.TextContent(text="Multiple content types test:"),
            t.ImageContent(data=PNG, mime_type="image/png"),
            embedded("test://mixed-content-resource", "application/json", data),
        ]
    )


@tool()
async def test_error_handling(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """A tool that fails."""
    words = "This tool intentionally returns an error for testing"
    return t.CallToolResult(content=[t.TextContent(text=words)], is_error=True)


# What a tool sends while it works.


async def log(ctx: Context, words: str) -> None:
    await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)


@tool()
async def test_tool_with_logging(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Three log messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, words)
        await anyio.sleep(0.05)
    return text("Tool with logging executed successfully")


@tool()
async def test_logging_tool(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """A log message, for whoever asked for them."""
    await log(ctx, "Tool execution started")
    return text("logged")


@tool()
async def test_tool_with_progress(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Three reports of progress."""
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return text(str((ctx.meta or {}).get("progress_token", 0)))


@tool()
async def test_reconnection(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Closes its own stream halfway."""
    await log(ctx, "Before disconnect")
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await anyio.sleep(0.2)
    await log(ctx, "After reconnect")
    return text("Reconnection test completed")


# What a tool asks of the client in the older revision: a request back to it.


@tool(strings("prompt"))
async def test_sampling(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Asks the client's model."""
    ask = sampling((params.arguments or {})["prompt"])
    answer = await ctx.session.create_message(
        messages=ask.params.messages, max_tokens=100, related_request_id=ctx.request_id
    )
    said = answer.content.text if isinstance(answer.content, t.TextContent) else "no text"
    return text(f"LLM response: {said}")


async def elicited(ctx: Context, label: str, ask: t.ElicitRequest) -> ToolAnswer:
    """Ask the person, and say what was answered."""
    form = ask.params
    assert isinstance(form, t.ElicitRequestFormParams)
    answer = await ctx.session.elicit_form(
        form.message, form.requested_schema, related_request_id=ctx.request_id
    )
    return text(f"{label}: action={answer.action}, content={json.dumps(answer.content or {})}")


@tool(strings("message"))
async def test_elicitation(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Asks the person."""
    ask = question((params.arguments or {})["message"], strings("response"))
    return await elicited(ctx, "User response", ask)


@tool()
async def test_elicitation_sep1034_defaults(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """A form with a default of every kind."""
    members = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    ask = question("Please check your details", {"type": "object", "properties": members})
    return await elicited(ctx, "Elicitation result", ask)


@tool()
async def test_elicitation_sep1330_enums(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """A form with a choice of every kind."""

    def titled(*names: str) -> list[dict[str, str]]:
        return [{"const": name, "title": name.capitalize()} for name in names]

    members = {
        "untitledSingle": {"type": "string", "enum": ["one", "two"]},
        "titledSingle": {"type": "string", "oneOf": titled("low", "high")},
        "legacyEnum": {
            "type": "string",
            "enum": ["small", "large"],
            "enumNames": ["Small", "Large"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["read", "write"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("bug", "docs")}},
    }
    ask = question("Please choose", {"type": "object", "properties": members})
    return await elicited(ctx, "Elicitation completed", ask)


# What a tool asks in the newer revision: a result that says what is missing.


@tool()
async def test_input_required_result_elicitation(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Asks for a name."""
    name = filled((params.input_responses or {}).get("user_name"), "name")
    if not isinstance(name, str):
        return t.InputRequiredResult(input_requests={"user_name": NAME})
    return text(f"Hello, {name}!")


@tool()
async def test_streaming_elicitation(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Reports progress, then asks for a name."""
    await ctx.session.report_progress(0.5, 1, "Halfway")
    return await test_input_required_result_elicitation(ctx, params)


@tool()
async def test_input_required_result_sampling(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Asks the client's model."""
    answer = (params.input_responses or {}).get("capital_question")
    if not isinstance(answer, t.CreateMessageResult):
        ask = sampling("What is the capital of France?")
        return t.InputRequiredResult(input_requests={"capital_question": ask})
    said = answer.content.text if isinstance(answer.content, t.TextContent) else "no text"
    return text(f"Model said: {said}")


@tool()
async def test_input_required_result_list_roots(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Asks for the client's roots."""
    answer = (params.input_responses or {}).get("client_roots")
    if not isinstance(answer, t.ListRootsResult):
        return t.InputRequiredResult(input_requests={"client_roots": t.ListRootsRequest()})
    return text(f"{len(answer.roots)} roots")


@tool()
async def test_input_required_result_request_state(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Wants its state back with the answer."""
    answered = filled((params.input_responses or {}).get("confirm"), "ok") is not None
    if not (answered and params.request_state == "asked"):
        return t.InputRequiredResult(input_requests={"confirm": CONFIRM}, request_state="asked")
    return text("state-ok")


@tool()
async def test_input_required_result_tampered_state(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Takes any state that passed the seal."""
    if params.request_state is None:
        return t.InputRequiredResult(input_requests={"confirm": CONFIRM}, request_state="asked")
    return text("state-ok")


@tool()
async def test_input_required_result_multiple_inputs(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Asks three things at once."""
    wanted: dict[str, t.InputRequest] = {
        "user_name": NAME,
        "greeting": sampling("Generate a greeting"),
        "client_roots": t.ListRootsRequest(),
    }
    if not wanted.keys() <= (params.input_responses or {}).keys():
        return t.InputRequiredResult(input_requests=wanted, request_state="asked")
    return text("All inputs received")


@tool()
async def test_input_required_result_multi_round(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Asks for a name, then for a colour."""
    state = json.loads(params.request_state or "{}")
    answers = params.input_responses or {}
    if "name" in state:
        colour = filled(answers.get("step2"), "color")
        if isinstance(colour, str):
            return text(f"{state['name']} likes {colour}")
    else:
        state["name"] = filled(answers.get("step1"), "name")
        if not isinstance(state["name"], str):
            return t.InputRequiredResult(input_requests={"step1": NAME}, request_state="{}")
    ask = question("What is your favourite colour?", strings("color"))
    return t.InputRequiredResult(input_requests={"step2": ask}, request_state=json.dumps(state))


@tool()
async def test_input_required_result_capabilities(
    ctx: Context, params: t.CallToolRequestParams
) -> ToolAnswer:
    """Asks only what the client said it can answer."""
    can = ctx.session.client_capabilities
    wanted: dict[str, t.InputRequest] = {}
    if can is not None and can.sampling is not None:
        wanted["sample"] = sampling("Say hello")
    if can is not None and can.elicitation is not None:
        wanted["ask"] = NAME
    return t.InputRequiredResult(input_requests=wanted, request_state="asked")


@tool()
async def test_missing_capability(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """Works only with a client that can sample."""
    can = ctx.session.client_capabilities
    if can is None or can.sampling is None:
        raise MCPError(
            code=t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="the client must be able to sample",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return text("The client can sample")


# Schemas.


@tool(
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }
)
async def test_x_mcp_header(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """An argument that travels in a header too."""
    return text(f"region={(params.arguments or {}).get('region')}")


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
    """A schema with the words of its newest draft."""
    return text("fine")


# Resources.

RESOURCES = [
    t.Resource(name="static-text", uri="test://static-text", mime_type="text/plain"),
    t.Resource(name="static-binary", uri="test://static-binary", mime_type="image/png"),
    t.Resource(name="watched", uri="test://watched-resource", mime_type="text/plain"),
]
TEMPLATES = [
    t.ResourceTemplate(
        name="data", uri_template="test://template/{id}/data", mime_type="application/json"
    )
]
TEMPLATE = re.compile(r"test://template/([^/]+)/data")


def contents(uri: str) -> t.TextResourceContents | t.BlobResourceContents | None:
    """What stands at an address of the suite, or None."""
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        return t.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    if uri == "test://static-binary":
        return t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri == "test://watched-resource":
        return t.TextResourceContents(uri=uri, mime_type="text/plain", text="Watched")
    if found := TEMPLATE.fullmatch(uri):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    return None


# Prompts.

PROMPTS = [
    t.Prompt(name="test_simple_prompt", description="No arguments."),
    t.Prompt(
        name="test_prompt_with_arguments",
        description="Two arguments.",
        arguments=[t.PromptArgument(name=name, required=True) for name in ("arg1", "arg2")],
    ),
    t.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A resource.",
        arguments=[t.PromptArgument(name="resourceUri", required=True)],
    ),
    t.Prompt(name="test_prompt_with_image", description="An image."),
    t.Prompt(name="test_input_required_result_prompt", description="Asks for its context."),
]


def said(*parts: t.ContentBlock) -> t.GetPromptResult:
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=p) for p in parts])


def prompt(params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
    """The messages of a prompt of the suite."""
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return said(t.TextContent(text="This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return said(t.TextContent(text=words))
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            return said(
                embedded(given["resourceUri"], "text/plain", words),
                t.TextContent(text="Please process the embedded resource above."),
            )
        case "test_prompt_with_image":
            return said(
                t.ImageContent(data=PNG, mime_type="image/png"),
                t.TextContent(text="Please analyze the image above."),
            )
        case _:
            context = filled((params.input_responses or {}).get("user_context"), "context")
            if not isinstance(context, str):
                ask = question("Which context?", strings("context"))
                return t.InputRequiredResult(input_requests={"user_context": ask})
            return said(t.TextContent(text=f"Use this context: {context}"))


# Putting it all onto a server.


def announcing(bus: SubscriptionBus) -> None:
    """Enter the two tools that announce a change, which need the server's own bus."""

    @tool()
    async def test_trigger_tool_change(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer:
        """Says that the tools changed."""
        await bus.publish(ToolsListChanged())
        return text("said")

    @tool()
    async def test_trigger_prompt_change(
        ctx: Context, params: t.CallToolRequestParams
    ) -> ToolAnswer:
        """Says that the prompts changed."""
        await bus.publish(PromptsListChanged())
        return text("said")


def install(server: Server[Any]) -> None:
    """Make `server` answer for the suite's names."""

    def own(method: str) -> Callable[[Context, Any], Awaitable[Any]] | None:
        entry = server.get_request_handler(method)
        return None if entry is None else entry.handler

    def listing(method: str, result: type[Any], member: str, mine: Callable[[], list[Any]]) -> None:
        """The suite's entries before the server's own, on the first page only."""
        rest = own(method)

        async def answer(ctx: Context, params: t.PaginatedRequestParams) -> Any:
            page = result(**{member: []}) if rest is None else await rest(ctx, params)
            before = mine() if params.cursor is None else []
            return page.model_copy(update={member: [*before, *getattr(page, member)]})

        server.add_request_handler(method, t.PaginatedRequestParams, answer)

    def choosing(
        method: str,
        accepts: type[Any],
        mine: Callable[[Context, Any], Awaitable[Any]],
        nothing: Callable[[Any], Any],
    ) -> None:
        """The suite's answer when it has one, else the server's own, else `nothing`."""
        rest = own(method)

        async def answer(ctx: Context, params: Any) -> Any:
            found = await mine(ctx, params)
            if found is not None:
                return found
            return nothing(params) if rest is None else await rest(ctx, params)

        server.add_request_handler(method, accepts, answer)

    async def call(ctx: Context, params: t.CallToolRequestParams) -> ToolAnswer | None:
        return await TOOLS[params.name][1](ctx, params) if params.name in TOOLS else None

    async def read(ctx: Context, params: t.ReadResourceRequestParams) -> Any:
        found = contents(params.uri)
        return None if found is None else t.ReadResourceResult(contents=[found])

    async def get(ctx: Context, params: t.GetPromptRequestParams) -> Any:
        return prompt(params) if params.name in {each.name for each in PROMPTS} else None

    async def complete(ctx: Context, params: t.CompleteRequestParams) -> Any:
        ref = params.ref
        name = ref.name if isinstance(ref, t.PromptReference) else ref.uri
        if name.startswith(("test_", "test://")):
            return t.CompleteResult(completion=t.Completion(values=[], total=0, has_more=False))
        return None

    async def accept(ctx: Context, params: Any) -> Any:
        """Subscriptions of the suite are never told anything; log levels are all sent."""
        uri = getattr(params, "uri", "test://")
        return t.EmptyResult() if uri.startswith("test://") else None

    def unknown(params: Any) -> Any:
        uri = getattr(params, "uri", None)
        data = None if uri is None else {"uri": uri}
        raise MCPError(code=t.INVALID_PARAMS, message="there is no such thing", data=data)

    listening = own("subscriptions/listen")
    ours = getattr(listening, "__self__", None)
    if isinstance(ours, Changes):
        bus = ours._bus  # The suite's tools must publish where the server's own listeners are.
    else:
        bus = InMemorySubscriptionBus()
        server.add_request_handler(
            "subscriptions/listen", t.SubscriptionsListenRequestParams, ListenHandler(bus)
        )
    announcing(bus)
    if not any(isinstance(each, RequestStateBoundary) for each in server.middleware):
        sealing = RequestStateSecurity.ephemeral()
        server.middleware.append(RequestStateBoundary(sealing, default_audience=server.name))

    listing("tools/list", t.ListToolsResult, "tools", lambda: [each for each, _ in TOOLS.values()])
    listing("resources/list", t.ListResourcesResult, "resources", lambda: RESOURCES)
    listing(
        "resources/templates/list",
        t.ListResourceTemplatesResult,
        "resource_templates",
        lambda: TEMPLATES,
    )
    listing("prompts/list", t.ListPromptsResult, "prompts", lambda: PROMPTS)
    choosing("tools/call", t.CallToolRequestParams, call, unknown)
    choosing("resources/read", t.ReadResourceRequestParams, read, unknown)
    choosing("prompts/get", t.GetPromptRequestParams, get, unknown)
    choosing("completion/complete", t.CompleteRequestParams, complete, unknown)
    choosing("resources/subscribe", t.SubscribeRequestParams, accept, unknown)
    choosing("resources/unsubscribe", t.UnsubscribeRequestParams, accept, unknown)
    choosing("logging/setLevel", t.SetLevelRequestParams, accept, unknown)

    schemas = server.get_tool_input_schema

    def schema(name: str) -> Any:
        if name in TOOLS:
            return TOOLS[name][0].input_schema
        return None if schemas is None else schemas(name)

    server.get_tool_input_schema = schema
