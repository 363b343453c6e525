"""Addresses of the pages."""

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from gyreweb.pages.views import execution, executions, groups, launch, report, run, runs, sign_in, simulations, tabs

urlpatterns = [
    path("login/", sign_in.SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("theme/", sign_in.set_theme, name="theme"),
    path("", runs.runs, name="runs"),
    path("runs/new/", launch.new_run, name="new_run"),
    path("runs/new/check/", launch.check, name="check_new_run"),
    path("runs/new/preset/", launch.presets, name="preset_fields"),
    path("runs/<int:run_id>/", run.run, name="run"),
    path("runs/<int:run_id>/chart.json", run.run_chart, name="run_chart"),
    path("runs/<int:run_id>/acts/", run.run_acts, name="run_acts"),
    *[path(f"runs/<int:run_id>/{name}/", run.act, {"name": name}, name=f"{name}_run") for name in run.ACTS],
    path("runs/<int:run_id>/cells/", tabs.cells, name="cells"),
    path("runs/<int:run_id>/decisions/", tabs.decisions, name="decisions"),
    path("runs/<int:run_id>/decisions/<int:number>.json", tabs.decision_inputs, name="decision_inputs"),
    path("runs/<int:run_id>/batches/", tabs.batches, name="batches"),
    path("runs/<int:run_id>/config/", tabs.config, name="config"),
    path("runs/<int:run_id>/what-if/", include("gyreweb.pages.what_if_urls")),
    path("runs/<int:run_id>/executions/", executions.executions, name="executions"),
    path("runs/<int:run_id>/executions/reassess/", executions.reassess, name="reassess_executions"),
    path("runs/<int:run_id>/groups/", groups.groups, name="groups"),
    path("runs/<int:run_id>/groups/<str:kind>/<int:number>/", groups.group, name="group"),
    path("runs/<int:run_id>/report/", report.report, name="report"),
    path("runs/<int:run_id>/quarantine/", report.quarantine, name="quarantine"),
    path("executions/<int:execution_id>/", execution.execution, name="execution"),
    path("executions/<int:execution_id>/outline/", execution.outline_rows, name="execution_outline"),
    path("executions/<int:execution_id>/cancel/", execution.cancel, name="cancel_execution"),
    path("executions/<int:execution_id>/reassess/", execution.reassess, name="reassess_execution"),
    path("executions/<int:execution_id>/verdicts/", execution.verdicts, name="execution_verdicts"),
    path("executions/<int:execution_id>/replay/", execution.replay, name="replay_execution"),
    path("simulations/", simulations.simulations, name="simulations"),
    path("simulations/<int:simulation_id>/", simulations.simulation, name="simulation"),
    path("simulations/<int:simulation_id>/delete/", simulations.delete, name="delete_simulation"),
    path("simulations/<int:simulation_id>/decisions/", simulations.decisions, name="simulated_decisions"),
    path(
        "simulations/<int:simulation_id>/runs/<int:run_id>/decisions/<int:number>.json",
        simulations.decision_inputs,
        name="simulated_inputs",
    ),
]
