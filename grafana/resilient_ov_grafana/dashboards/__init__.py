"""The dashboards; needs the extra `dashboards`."""
