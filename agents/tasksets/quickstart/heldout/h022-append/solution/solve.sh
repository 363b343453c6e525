#!/bin/bash
set -e
cd /app
echo bread >> score.txt
echo cat > plan.txt
