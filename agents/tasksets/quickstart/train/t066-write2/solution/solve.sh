#!/bin/bash
set -e
cd /app
echo ocean > config.txt
echo cross > key.txt
