#!/bin/bash
set -e
cd /app
echo 44 >> main.txt
echo cube > start.txt
