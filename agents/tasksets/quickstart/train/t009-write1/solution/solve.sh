#!/bin/bash
set -e
cd /app
echo 50 > page.txt
