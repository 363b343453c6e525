#!/bin/bash
set -e
cd /app
echo 28 > config.txt
