#!/bin/bash
set -e
cd /app
echo violin >> config.txt
echo cup > names.txt
