#!/bin/bash
set -e
cd /app
echo snow > data.txt
