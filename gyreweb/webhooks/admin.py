"""Django admin of webhooks: the log of messages, and the test. They are made and deleted over REST."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from agents.actions.errors import Refused
from agents.admin import ReadOnlyAdmin
from gyreweb.webhooks.actions import send_test
from gyreweb.webhooks.models import Delivery, Webhook


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ("id", "project", "url", "topics", "enabled", "disabled_reason", "created_by", "created_at")
    list_select_related = ("project", "created_by")
    actions = ("test",)

    @admin.action(description="Send a test message to the selected webhooks", permissions=["test"])
    def test(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for hook in queryset:
            try:
                send_test(hook, user=request.user)
            except Refused as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                self.message_user(request, f"A test message to {hook} is queued; its delivery says what became of it.")

    def has_test_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks.change_webhook")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ("id", "webhook", "topic", "run", "state", "attempts", "last_status", "last_error", "next_at")
    list_filter = ("state", "topic")
    list_select_related = ("webhook", "run")
    ordering = ("-id",)
