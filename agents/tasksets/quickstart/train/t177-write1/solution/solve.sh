#!/bin/bash
set -e
cd /app
echo lake > plan.txt
