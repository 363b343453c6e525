#!/bin/bash
set -e
cd /app
echo autumn >> report.txt
echo 85 > copy.txt
