#!/bin/bash
set -e
cd /app
echo steel > text.txt
