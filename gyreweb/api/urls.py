"""Addresses of the API. The paths of v1 do not change their meaning."""

from django.urls import include, path, re_path

from gyreweb.api import schema as _schema  # noqa: F401  (registers how tokens are described)
from gyreweb.api.docs import Schema, api_docs
from gyreweb.api.problems import no_such_address
from gyreweb.api.views import executions, gates, processing, runs, scheduling, simulations, tokens, webhooks, what_ifs

v1 = [
    path("schema", Schema.as_view(), name="schema"),
    path("runs", runs.Runs.as_view()),
    path("runs/<int:run_id>", runs.RunItem.as_view()),
    path("runs/<int:run_id>/events", runs.RunEvents.as_view()),
    path("runs/<int:run_id>/metrics", runs.RunMetrics.as_view()),
    path("runs/<int:run_id>/gate", gates.RunGate.as_view()),
    path("runs/<int:run_id>/stop", runs.StopRun.as_view()),
    path("runs/<int:run_id>/pause", runs.PauseRun.as_view()),
    path("runs/<int:run_id>/resume", runs.ResumeRun.as_view()),
    path("runs/<int:run_id>/executions", executions.Executions.as_view()),
    path("runs/<int:run_id>/decisions", scheduling.Decisions.as_view()),
    path("runs/<int:run_id>/batches", scheduling.Batches.as_view()),
    path("runs/<int:run_id>/overrides", scheduling.Overrides.as_view()),
    path("runs/<int:run_id>/overrides/preview", scheduling.OverridePreview.as_view()),
    path("runs/<int:run_id>/overrides/<int:override_id>", scheduling.OverrideItem.as_view()),
    path("runs/<int:run_id>/groups", processing.Groups.as_view()),
    path("runs/<int:run_id>/reassess", processing.ReassessMany.as_view()),
    path("runs/<int:run_id>/report", processing.Report.as_view()),
    path("runs/<int:run_id>/calls/quarantined", processing.Quarantined.as_view()),
    path("runs/<int:run_id>/calls/false_forks", processing.FalseForks.as_view()),
    path("runs/<int:run_id>/exports/<str:table>.<str:extension>", processing.Export.as_view()),
    path("groups/<int:group_id>", processing.GroupItem.as_view()),
    path("runs/<int:run_id>/what-if", what_ifs.RunWhatIfs.as_view()),
    path("runs/<int:run_id>/what-if/<int:what_if_id>", what_ifs.WhatIfItem.as_view()),
    path("runs/<int:run_id>/what-if/<int:what_if_id>/cancel", what_ifs.CancelWhatIf.as_view()),
    path("runs/<int:run_id>/what-if/<int:what_if_id>/resume", what_ifs.ResumeWhatIf.as_view()),
    path("runs/<int:run_id>/what-if/<int:what_if_id>/points/<int:number>/apply", what_ifs.ApplyWhatIfPoint.as_view()),
    path("executions/<int:execution_id>", executions.ExecutionItem.as_view()),
    path("executions/<int:execution_id>/tree", executions.ExecutionTree.as_view()),
    path("executions/<int:execution_id>/tokens", tokens.ExecutionTokens.as_view()),
    path("executions/<int:execution_id>/assessments", processing.Assessments.as_view()),
    path("executions/<int:execution_id>/reassess", processing.Reassess.as_view()),
    path("executions/<int:execution_id>/selection", processing.Selection.as_view()),
    path("executions/<int:execution_id>/cancel", executions.CancelExecution.as_view()),
    path("simulations", simulations.Simulations.as_view()),
    path("simulations/<int:simulation_id>", simulations.SimulationItem.as_view()),
    path("simulations/<int:simulation_id>/decisions", simulations.SimulatedDecisions.as_view()),
    path("webhooks", webhooks.Webhooks.as_view()),
    path("webhooks/<int:webhook_id>", webhooks.WebhookItem.as_view()),
    path("webhooks/<int:webhook_id>/test", webhooks.TestWebhook.as_view()),
    path("webhooks/<int:webhook_id>/deliveries", webhooks.Deliveries.as_view()),
    path("cells", scheduling.Cells.as_view()),
    re_path(r"^cells/(?P<name>[0-9]{1,9}-[0-9]{1,6})$", scheduling.CellItem.as_view()),
]

urlpatterns = [
    path("v1/", include(v1)),
    re_path(r"^v1(/.*)?$", no_such_address),
    path("docs/", api_docs, name="api_docs"),
]
