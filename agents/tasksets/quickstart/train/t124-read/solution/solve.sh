#!/bin/bash
set -e
cd /app
cat list.txt
echo copper > plan.txt
