"""When something has to stand before the servers, and which of its policies is the scenario's router."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from windtunnel.exporters.servers.target import Entry
from windtunnel.techniques.knobs import named

if TYPE_CHECKING:
    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.servers.target import ServerDraft
    from windtunnel.exporters.target import OptionList

ROUTER_POLICIES = {
    "vllm_router": {
        "round_robin": "round_robin",
        "random": "random",
        "power_of_two": "power_of_two",
        "prefix_aware": "cache_aware",
    },
    "sglang_router": {
        "round_robin": "round_robin",
        "random": "random",
        "power_of_two": "power_of_two",
        "prefix_aware": "cache_aware",
    },
    "nginx": {
        "round_robin": "",
        "random": "random;",
        "power_of_two": "random two least_conn;",
        "least_requests": "least_conn;",
    },
}
"""Program → router id → its own word for that rule."""
_FRONT = {
    "vllm": ("vllm_router", "vllm-router"),
    "sglang": ("sglang_router", "sglang-router"),
    "trtllm": ("nginx", "nginx"),
}

Lines = Callable[["Deployed", "ServerDraft", dict[str, list[str]]], list[str]]


def in_front(deployed: Deployed, draft: ServerDraft, lines: Lines) -> None:
    """Put an entry before several servers, and say where its rule is not the simulated one."""
    several = sum(pool.spec.replicas for pool in deployed.pools) > 1
    if not several and not deployed.split:
        return
    program, needs = _FRONT[draft.known.target]
    if program == "nginx" and deployed.split:  # its own server stands in front, which has one rule
        draft.entry = Entry(lambda urls: lines(deployed, draft, urls), "trtllm-serve")
        return
    router, _ = named(deployed.serving.router)
    if router not in ROUTER_POLICIES[program]:
        draft.lacks(f"router {router}: {needs} sends requests round robin")
    draft.entry = Entry(lambda urls: lines(deployed, draft, urls), needs)


def workers(urls: dict[str, list[str]]) -> str:
    """The option of a router that names all servers."""
    return " ".join(["--worker-urls", *(f"http://{url}" for found in urls.values() for url in found)])


def command(known: OptionList, words: list[str]) -> list[str]:
    """A router's command, an option a line; each is one that the router has."""
    refused = [known.refuses(word.split()[0], *word.split()[1:]) for word in words[1:]]
    assert not any(refused), refused
    return [" \\\n  ".join(words)]
