"""Addresses of the web process."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

admin.site.site_title = "Gyre admin"
admin.site.site_header = "Gyre"
admin.site.index_title = "Everything that is recorded, row by row"

urlpatterns = [
    path("favicon.ico", RedirectView.as_view(url=static("img/gyre.svg"))),  # browsers ask for it on admin pages
    path("admin/", admin.site.urls),
    path("api/", include("gyreweb.api.urls")),
    path("", include("gyreweb.pages.urls")),
]
