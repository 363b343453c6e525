"""Addresses of the web process."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("gyreweb.api.urls")),
    path("", include("gyreweb.pages.urls")),
]
