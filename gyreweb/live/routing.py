"""Addresses of the live feed."""

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path, re_path

from gyreweb.live.consumer import NOT_FOUND, RunConsumer


class NoSuchAddress(AsyncWebsocketConsumer):
    """Any other address: closed with the code that the pages know."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(NOT_FOUND)


websocket_urlpatterns = [path("ws/runs/<int:run_id>/", RunConsumer.as_asgi()), re_path("", NoSuchAddress.as_asgi())]
