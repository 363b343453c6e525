#!/bin/bash
set -e
cd /app
echo brave > index.txt
