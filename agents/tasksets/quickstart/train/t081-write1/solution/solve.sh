#!/bin/bash
set -e
cd /app
echo 98 > plan.txt
