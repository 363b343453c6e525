"""Who can reach what Gyre listens on: addresses of this machine, and what may go over them in the clear."""

import ipaddress
import socket

import psutil

from gyreweb import env

PLAIN_HTTP_VARIABLE = "GYRE_PLAIN_HTTP"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def public_addresses() -> list[str]:
    """Addresses of this machine that anybody on the internet could try."""
    found = []
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            if entry.family in (socket.AF_INET, socket.AF_INET6):
                address = ipaddress.ip_address(entry.address.partition("%")[0])
                if address.is_global and not address.is_multicast:
                    found.append(str(address))
    return sorted(found)


def problem_with_host(host: str) -> str:
    """Why the dashboard cannot listen on `host`; empty when it can."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        return (
            f"GYRE_HOST={host!r} is no address of this machine ({error.strerror or error}): "
            "use 127.0.0.1, one of its addresses, or 0.0.0.0 for all of them."
        )
    return ""


def problem_with_plain_http(host: str, https: bool, behind_proxy: bool) -> str:
    """Why the dashboard must not be served on `host` like that; empty when it may.

    It speaks plain http itself: only a proxy before it makes it https, whatever the cookies are marked as.
    """
    if is_loopback(host) or (https and behind_proxy) or env.flag(PLAIN_HTTP_VARIABLE):
        return ""
    return (
        f"GYRE_HOST={host} can be reached from other machines, and passwords would go over plain http. Put a proxy "
        "that speaks TLS before it (then GYRE_HTTPS=1 and GYRE_BEHIND_PROXY=1), keep GYRE_HOST=127.0.0.1 and use "
        f"`ssh -L`, or, in a network where you trust everybody, set {PLAIN_HTTP_VARIABLE}=1."
    )
