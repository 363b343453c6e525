#!/bin/bash
set -e
cd /app
echo clock > start.txt
