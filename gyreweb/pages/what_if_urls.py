"""Addresses of a run's what-if page, below /runs/<id>/what-if/."""

from django.urls import path

from gyreweb.pages.views import what_if

POINT = "<int:what_if_id>/points/<int:number>"

urlpatterns = [
    path("", what_if.what_if, name="what_if"),
    path("check/", what_if.check, name="check_what_if"),
    path("<int:what_if_id>/result/", what_if.result, name="what_if_result"),
    path("<int:what_if_id>/cancel/", what_if.act, {"name": "cancel"}, name="cancel_what_if"),
    path("<int:what_if_id>/resume/", what_if.act, {"name": "resume"}, name="resume_what_if"),
    path(f"{POINT}/preview/", what_if.preview, name="preview_what_if"),
    path(f"{POINT}/apply/", what_if.apply, name="apply_what_if"),
]
