#!/bin/bash
set -e
cd /app
echo quiet > item.txt
echo violin > names.txt
