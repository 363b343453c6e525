#!/bin/bash
set -e
cd /app
echo juice > score.txt
echo 81 > report.txt
echo teacher > plan.txt
