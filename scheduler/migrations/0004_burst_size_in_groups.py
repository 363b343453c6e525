"""A burst says its size in groups: policies that mix bursts dispatch other numbers than whole batches."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0003_simulations")]

    operations = [
        migrations.AddField("burst", "num_groups", models.PositiveIntegerField(default=0), preserve_default=False),
        migrations.RunSQL(
            "UPDATE scheduler_burst SET num_groups = num_batches * groups_per_batch",
            "UPDATE scheduler_burst SET num_batches = num_groups / groups_per_batch",
        ),
        migrations.RemoveField("burst", "num_batches"),
    ]
