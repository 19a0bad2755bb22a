"""What ``retrograd train`` and its sibling commands share: settings, trainers, metrics, reports."""
