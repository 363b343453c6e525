"""Signed messages to other systems when a run changes state, an alarm rises or a person overrides the scheduler.

They follow Standard Webhooks; docs/howto/webhooks.md says how to receive them.
"""
