"""Addresses of the live feed."""

from django.urls import path

from gyreweb.live.consumer import RunConsumer

websocket_urlpatterns = [path("ws/runs/<int:run_id>/", RunConsumer.as_asgi())]
