"""Tables of the `agents` app. Other apps read them through `agents.facade`, raw SQL through `agents.contracts`."""

from agents.models.calls import Call, Node, RequestBody
from agents.models.executions import Assessment, Execution, Group, KeptWorkspace, Reassessment
from agents.models.figures import Figure
from agents.models.projects import ApiToken, Project, Task, TaskSet
from agents.models.proxies import ProxyProcess
from agents.models.runs import Run, RunEvent
from agents.models.selection import Draw, SelectionRecord, Trajectory

__all__ = [
    "ApiToken", "Assessment", "Call", "Draw", "Execution", "Figure", "Group", "KeptWorkspace", "Node", "Project",
    "ProxyProcess", "Reassessment", "RequestBody", "Run", "RunEvent", "SelectionRecord", "Task", "TaskSet",
    "Trajectory",
]  # fmt: skip
