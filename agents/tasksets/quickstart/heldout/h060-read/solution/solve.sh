#!/bin/bash
set -e
cd /app
cat record.txt
echo library > plan.txt
