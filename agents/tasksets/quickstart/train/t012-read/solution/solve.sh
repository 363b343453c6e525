#!/bin/bash
set -e
cd /app
cat index.txt
echo 20 > plan.txt
