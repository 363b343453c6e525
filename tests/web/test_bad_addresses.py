"""What no address can mean is refused with a word, not with a server error."""

import pytest
from django.test import Client


@pytest.mark.parametrize("address", ["/?q=%00", "/api/v1/runs?state=%00", "/runs/%00/"])
def test_an_address_with_a_nul_is_refused(browser: Client, address: str) -> None:
    reply = browser.get(address)
    assert reply.status_code == 400
    assert "NUL" in reply.content.decode()
